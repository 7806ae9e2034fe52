"""Hard attention, programs and grids in the Coq library are those of Python's exact runners.

Random blueprints, not made by any construction, are run by both, inside and outside of what a theorem
would speak of: longer inputs than there are positions, points outside the support.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from exactformer.coq.check import compiled
from exactformer.coq.hard_layers import IMPORTS
from exactformer.coq.program_law import model_definition, program_definition, spelled
from exactformer.coq.schedule import schedule
from exactformer.coq.sequence_law import sequence_model
from exactformer.coq.text import listed, rational
from exactformer.core.layers import (
    RELU,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import InputError
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, ProjectedHead
from exactformer.programs.program import MapNode, PairNode, Program
from exactformer.programs.run.exact import run_program
from exactformer.programs.tabulation import tabulate
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.run.exact import run_sequence
from tests.cases.programs import all_inputs, random_program
from tests.coq.laws import module
from tests.coq.test_agreement import NUMBERS, random_matrix

HARD = Selection(Rule.HARD_MAX)
STEP = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
BUMP = PiecewiseLinear.of((-1, 1, 2), ((0, 1), (2, 0), (0, 3), (-1, Fraction(1, 2))))


def random_feed_forward(
    rng: random.Random, w: int, activations: list[PiecewiseLinear]
) -> FeedForward:
    units = rng.randint(0, 3)
    return FeedForward(
        random_matrix(rng, units, w),
        random_matrix(rng, units, 1),
        random_matrix(rng, w, units),
        random_matrix(rng, w, 1),
        rng.choice(activations),
    )


def random_program_blueprint(rng: random.Random) -> ProgramBlueprint:
    w, tokens, positions = rng.randint(1, 4), rng.randint(2, 4), rng.randint(2, 4)
    layers = []
    for _ in range(rng.randint(0, 3)):
        heads = []
        for _ in range(rng.randint(0, 2)):
            rows, values = rng.randint(0, 2), rng.randint(0, 2)
            heads.append(
                ProjectedHead(
                    random_matrix(rng, rows, w),
                    random_matrix(rng, rows, w),
                    random_matrix(rng, values, w),
                    random_matrix(rng, w, values),
                )
            )
        layers.append(ProgramLayer(tuple(heads), random_feed_forward(rng, w, [RELU, BUMP])))
    return ProgramBlueprint(
        random_matrix(rng, tokens, w),
        random_matrix(rng, positions, w, filled=0.3),
        tuple(layers),
        random_matrix(rng, rng.randint(1, 3), w),
        HARD,
        causal=rng.random() < 0.5,
        beginning=rng.random() < 0.5,
        registers=(),
        dimensions=(),
    )


def numbers(rows: list[list[Fraction]]) -> str:
    return listed(listed(map(rational, row)) for row in rows)


def test_coq_runs_random_transformers_on_tokens_as_python_does(coq):
    rng, cases = random.Random(0), []
    for number in range(40):
        blueprint = random_program_blueprint(rng)
        lines = [model_definition(blueprint)]
        for _ in range(3):
            length = rng.randint(1, blueprint.positions.rows + 1)
            ids = [rng.randrange(blueprint.tokens.rows) for _ in range(length)]
            found = numbers(run_program(blueprint, ids))
            lines.append(f"Goal run model {listed(map(str, ids))}%nat = {found}.")
            lines.append("Proof. vm_compute. reflexivity. Qed.")
        cases.append(module(f"case_{number}", "\n".join(lines)))
    answer = compiled(coq, IMPORTS.format(files="HardAttention Rasp") + "\n".join(cases))
    assert answer.returncode == 0, answer.stderr


def random_sequence_blueprint(rng: random.Random) -> SequenceBlueprint:
    n, d, w = rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 3)
    parts: list[Attention | FeedForward] = []
    for _ in range(rng.randint(0, 4)):
        if rng.random() < 0.5:
            layer = random_feed_forward(rng, w, [RELU, STEP, BUMP])
            run = 2 if layer.w1.rows == 2 and rng.random() < 0.5 else None
            parts.append(replace(layer, successive=run and 1))
            continue
        rows = rng.randint(0, 2)
        query, key, value = (random_matrix(rng, r, w) for r in (rows, rows, w))
        biased = BiasedHead(query, key, value, random_matrix(rng, rows, 1))
        parts.append(Attention((rng.choice([biased, Head(query, key, value)]),), HARD))
    return SequenceBlueprint(
        tokens=n,
        dim=d,
        delta=Fraction(1, 2),
        form="none",
        positional=True,
        support=(Fraction(0), Fraction(1)),
        realisation="hard",
        dimensions=("",) * w,
        embedding=SequenceEmbedding(
            random_matrix(rng, w, d), random_matrix(rng, w, 1), random_matrix(rng, w, n)
        ),
        stages=(Stage("all", tuple(parts)),),
        readout=random_matrix(rng, d, w),
        code=Matrix.of(1, w, {}),
        largest_key=1,
    )


def test_coq_runs_random_transformers_on_vectors_as_python_does(coq):
    rng, cases = random.Random(1), []
    for number in range(40):
        blueprint = random_sequence_blueprint(rng)
        lines = [sequence_model(blueprint)]
        for _ in range(3):
            size = range(blueprint.dim)
            x = [[rng.choice(NUMBERS) / 3 for _ in size] for _ in range(blueprint.tokens)]
            found = numbers(run_sequence(blueprint, x))
            lines.append(f"Goal equal_sequences (run model {numbers(x)}) {found} = true.")
            lines.append("Proof. vm_compute. reflexivity. Qed.")
        cases.append(module(f"case_{number}", "\n".join(lines)))
    answer = compiled(coq, IMPORTS.format(files="HardAttention Grids Cells") + "\n".join(cases))
    assert answer.returncode == 0, answer.stderr


def without_an_entry(program: Program, rng: random.Random) -> Program:
    """Return a program one of whose tables lacks a value, if it has tables."""
    tables = [k for k, n in enumerate(program.nodes) if isinstance(n, MapNode | PairNode)]
    if not tables:
        return program
    place = rng.choice(tables)
    node = program.nodes[place]
    assert isinstance(node, MapNode | PairNode)
    entries = dict(node.table.entries)
    entries.pop(rng.choice(sorted(entries)))
    nodes = list(program.nodes)
    nodes[place] = replace(node, table=Matrix.of(*node.table.shape, entries))
    return replace(program, nodes=tuple(nodes))


def value_of(program: Program, xs: list) -> str:
    """Return what a program gives, or None where it raises."""
    try:
        return f"Some {listed(map(spelled, program(xs)))}"
    except InputError:
        return "None"


def nothing(program: Program) -> ProgramBlueprint:
    """Return a blueprint without layers: the order of a program needs none."""
    one = Matrix.of(1, 1, {})
    return ProgramBlueprint(one, one, (), one, HARD, program.causal, False, (), ())


def test_coq_evaluates_random_programs_as_python_does(coq):
    rng, cases, missing = random.Random(2), [], 0
    for seed in range(40):
        expression, vocabulary, length, causal = random_program(seed)
        try:
            program = tabulate(expression, vocabulary, length, causal)
        except (InputError, ArithmeticError):
            continue
        if rng.random() < 0.3:
            program = without_an_entry(program, rng)
        lines = [program_definition(program, schedule(nothing(program), program))]
        for xs in all_inputs(vocabulary, length, 6, seed)[-6:]:
            found = value_of(program, list(xs))
            missing += found == "None"
            lines.append(f"Goal eval program {listed(map(spelled, xs))} = {found}.")
            lines.append("Proof. vm_compute. reflexivity. Qed.")
        cases.append(module(f"case_{seed}", "\n".join(lines)))
    assert missing
    answer = compiled(coq, IMPORTS.format(files="HardAttention Rasp Programs") + "\n".join(cases))
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "Nothing"),
        ('a"b', '(Text "a""b")'),
        (("x", (Fraction(1, 3), -2)), None),
    ],
)
def test_values_are_written_without_loss(value, text):
    assert text is None or spelled(value) == text
    nested = "(Pair (Number (1 # 3)) (Pair (Number (-2)) End))"
    assert spelled(("x", (Fraction(1, 3), -2))) == f'(Pair (Text "x") (Pair {nested} End))'
