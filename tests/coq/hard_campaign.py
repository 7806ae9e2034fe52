"""Random programs and sequence maps, and random tampering: Coq must agree with exact runs.

    python -m tests.coq.hard_campaign [--models 100] [--seed 0]

Every model that Python proves must be proved by Coq, up to ``Qed``. Where something was tampered with
(a weight or a table), Coq must prove the statement about a program exactly where all inputs, run one by
one in Python's exact arithmetic, give what it says. It must refuse a sequence map that is wrong at some
point, and prove what Python proves.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import exactformer as ef
from exactformer.coq import program_law, sequence_law
from exactformer.coq.check import compiled
from exactformer.coq.hard_layers import IMPORTS
from exactformer.coq.installation import Coq, find_coq
from exactformer.core.layers import Attention, FeedForward
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError, InputError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.model import ProgramModel
from exactformer.programs.program import MapNode, PairNode, Program
from exactformer.programs.run.exact import run_program
from exactformer.programs.values import Value
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.run.exact import run_sequence
from tests.cases.programs import random_program
from tests.coq.laws import module

_DEFINITIONS = "Definition model"
NUMBERS = [Fraction(n, d) for n in (-3, -1, 1, 2, 5) for d in (1, 2, 7)]


# Programs


def programs(count: int, seed: int) -> Iterator[ProgramModel]:
    """Yield random programs with few inputs, compiled."""
    made, at = 0, 0
    while made < count:
        at += 1
        expression, vocabulary, length, causal = random_program(1000 * seed + at)
        while sum(len(vocabulary) ** m for m in range(1, length + 1)) > 200:
            length -= 1
        try:
            yield ef.compile_program(
                expression, vocabulary=vocabulary, max_length=length, causal=causal
            )
            made += 1
        except ExactformerError:
            continue


def is_right(blueprint: ProgramBlueprint, program: Program, values: Iterable[Value]) -> bool:
    """Whether exact runs of all inputs give exactly the codes of the program's values."""
    values = list(values)
    for m in range(1, program.max_length + 1):
        for ids in product(range(len(program.tokens)), repeat=m):
            try:
                wanted = program([program.tokens[k] for k in ids])
            except (InputError, TypeError):
                return False
            for row, value in zip(run_program(blueprint, ids), wanted, strict=True):
                if program.numerical:
                    if row != [value]:
                        return False
                elif value not in values or row != [Fraction(v == value) for v in values]:
                    return False
    return True


def tampered_program(
    blueprint: ProgramBlueprint, program: Program, rng: random.Random
) -> tuple[ProgramBlueprint, Program]:
    """Return a blueprint or a program with one number changed."""
    tables = [k for k, n in enumerate(program.nodes) if isinstance(n, MapNode | PairNode)]
    if tables and rng.random() < 0.3:
        place = rng.choice(tables)
        node = program.nodes[place]
        assert isinstance(node, MapNode | PairNode)
        entry = rng.choice(sorted(node.table.entries))
        number = Fraction(rng.randint(1, len(program.values)))
        table = Matrix.of(*node.table.shape, {**node.table.entries, entry: number})
        nodes = list(program.nodes)
        nodes[place] = replace(node, table=table)
        return blueprint, replace(program, nodes=tuple(nodes))
    name = rng.choice(["tokens", "positions", "readout", "layers", "layers", "layers"])
    if name != "layers" or not blueprint.layers:
        name = "readout" if name == "layers" else name
        return replace(blueprint, **{name: changed(getattr(blueprint, name), rng)}), program
    layers = list(blueprint.layers)
    at = rng.randrange(len(layers))
    layer = layers[at]
    if layer.heads and rng.random() < 0.6:
        heads = list(layer.heads)
        k = rng.randrange(len(heads))
        part = rng.choice(["query", "key", "value", "output"])
        heads[k] = replace(heads[k], **{part: changed(getattr(heads[k], part), rng)})
        layers[at] = replace(layer, heads=tuple(heads))
    else:
        part = rng.choice(["w1", "b1", "w2"])
        ff = layer.feed_forward
        ff = replace(ff, **{part: changed(getattr(ff, part), rng)})
        layers[at] = replace(layer, feed_forward=ff)
    return replace(blueprint, layers=tuple(layers)), program


def changed(matrix: Matrix, rng: random.Random) -> Matrix:
    """Return a matrix with another number at one place."""
    if not matrix.rows or not matrix.columns:
        return matrix
    if matrix.entries and rng.random() < 0.7:
        place = rng.choice(sorted(matrix.entries))
    else:
        place = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
    return Matrix.of(*matrix.shape, {**matrix.entries, place: rng.choice(NUMBERS)})


# Sequence maps


def sequences(count: int, seed: int) -> Iterator[ef.SequenceModel]:
    """Yield random tables on small grids, compiled."""
    rng = random.Random(seed)
    for _ in range(count):
        n, d, N = rng.choice([(1, 1, 3), (2, 1, 3), (2, 1, 2), (3, 1, 3), (2, 2, 2)])
        form = rng.choice(["four-layer", "four-layer", "compact", "paper" if n > 1 else "compact"])
        low = Fraction(rng.randint(-2, 1), rng.randint(1, 3))
        support = low, low + Fraction(rng.randint(1, 4), rng.randint(1, 3))
        table: dict[tuple[int, ...], list[list[Fraction]]] = {}
        positional = rng.random() < 0.4
        for ids in product(range(N**d), repeat=n):
            if not positional and (list(ids) != sorted(ids) or len(set(ids)) < n):
                continue
            values = [[rng.choice(NUMBERS) for _ in range(d)] for _ in range(n)]
            table[ids] = values
        yield ef.compile_sequence(
            table,
            tokens=n,
            dim=d,
            delta=Fraction(1, N),
            form=form,
            positional=positional,
            support=support,
        )


def has_values(blueprint: SequenceBlueprint, table: GridTable) -> bool:
    """Whether exact runs at some points of every sequence of cells give the table's values."""
    grid = table.grid
    offsets = (Fraction(0), Fraction(1, 2), Fraction(99999, 100000))
    for ids in product(range(grid.points), repeat=grid.tokens):
        for offset in offsets:
            found = run_sequence(blueprint, [list(grid.place(k, offset)) for k in ids])
            if tuple(map(tuple, found)) != table.at(ids):
                return False
    return True


def is_proven(blueprint: SequenceBlueprint, table: GridTable) -> bool:
    """Whether Python proves that a blueprint has the values of a table."""
    try:
        certify_sequence(blueprint, table)
    except ExactformerError:
        return False
    return True


def tampered_sequence(blueprint: SequenceBlueprint, rng: random.Random) -> SequenceBlueprint:
    """Return a blueprint with one number changed."""
    stages = [list(stage.parts) for stage in blueprint.stages]
    parts = rng.choice([part for part in stages if part])
    at = rng.randrange(len(parts))
    layer = parts[at]
    if isinstance(layer, Attention):
        heads = list(layer.heads)
        k = rng.randrange(len(heads))
        name = rng.choice(["query", "key", "value"])
        heads[k] = replace(heads[k], **{name: changed(getattr(heads[k], name), rng)})
        parts[at] = replace(layer, heads=tuple(heads))
    else:
        assert isinstance(layer, FeedForward)
        name = rng.choice(["w1", "b1", "w2", "b2"])
        parts[at] = replace(layer, **{name: changed(getattr(layer, name), rng)})
    made = [replace(s, parts=tuple(p)) for s, p in zip(blueprint.stages, stages, strict=True)]
    return replace(blueprint, stages=tuple(made))


# Coq


def verdicts(coq: Coq, texts: list[str], files: str, proof: str, diagnosis: str) -> list[str]:
    """Return what Coq's checkers say of each law, all in one file."""
    modules = [IMPORTS.format(files=files)]
    for number, text in enumerate(texts):
        body = text[text.index(_DEFINITIONS) :].replace("Print Assumptions law.\n", "")
        modules.append(module(f"law_{number}", body.replace(proof, diagnosis)))
    answer = compiled(coq, "\n".join(modules))
    assert answer.returncode == 0, answer.stderr
    return re.findall(r"verdict: \(?(\w+)", answer.stdout)


def program_verdicts(coq: Coq, texts: list[str]) -> list[str]:
    """Return what Coq says of laws of programs."""
    diagnosis = "Proof. diagnose_program order. Abort."
    return verdicts(coq, texts, "HardAttention Rasp Programs", program_law.PROOF, diagnosis)


def sequence_verdicts(coq: Coq, texts: list[str]) -> list[str]:
    """Return what Coq says of laws of sequence maps."""
    diagnosis = "Proof. diagnose_cells. Abort."
    return verdicts(coq, texts, "HardAttention Grids Cells", sequence_law.PROOF, diagnosis)


def campaign(coq: Coq, models: int, seed: int = 0) -> list[str]:
    """Return every disagreement on so many programs and as many sequence maps."""
    rng, found = random.Random(seed), []
    texts, truths = [], []
    for model in programs(models, seed):
        texts.append(program_law.program_law(model.blueprint, model.program, model.values))
        truths.append(True)
        blueprint, program = tampered_program(model.blueprint, model.program, rng)
        texts.append(program_law.program_law(blueprint, program, model.values))
        truths.append(is_right(blueprint, program, model.values))
    told = program_verdicts(coq, texts)
    pairs = enumerate(zip(told, truths, strict=True))
    found += [
        f"program {k}: Coq {t}, exact runs {r}" for k, (t, r) in pairs if (t == "Proved") != r
    ]
    assert truths.count(False) >= models // 3, "too few of the tampered programs are wrong"
    texts, truths, proven = [], [], []
    for model in sequences(models, seed):
        for blueprint in (model.blueprint, tampered_sequence(model.blueprint, rng)):
            texts.append(sequence_law.sequence_law(blueprint, model.table))
            truths.append(has_values(blueprint, model.table))
            proven.append(is_proven(blueprint, model.table))
    assert truths.count(False) >= models // 3, "too few of the tampered maps are wrong"
    for k, told in enumerate(sequence_verdicts(coq, texts)):
        if (told == "AllCells" and not truths[k]) or (told != "AllCells" and proven[k]):
            found.append(f"map {k}: Coq {told}, exact runs {truths[k]}, Python {proven[k]}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for line in campaign(find_coq(), given.models, given.seed) or ["no disagreement"]:
        print(line)
