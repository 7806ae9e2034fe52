"""The semantics of the Coq library is that of Python's exact runner.

Random blueprints, not made by any theorem, are run on rational points by both: with several heads and
blocks, both rules, equal scores, biases of queries, both activations. Coq's numbers are those of its
semantics over the reals by the theorem ``qrun_ok``.
"""

from __future__ import annotations

import random
from fractions import Fraction

import exactformer as ef
from exactformer.coq.check import compiled
from exactformer.coq.law import IMPORTS, definitions
from exactformer.coq.text import listed, rational
from exactformer.core.domain import Ball
from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    BiasedHead,
    Block,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.exact import run_exact
from tests.coq.laws import module

NUMBERS = [Fraction(n, d) for n in range(-3, 4) if n for d in (1, 1, 1, 2)]


def random_matrix(rng: random.Random, rows: int, columns: int, filled: float = 0.5) -> Matrix:
    places = [(i, j) for i in range(rows) for j in range(columns) if rng.random() < filled]
    return Matrix.of(rows, columns, {place: rng.choice(NUMBERS) for place in places})


def random_blueprint(rng: random.Random) -> Blueprint:
    n, d, w = rng.randint(1, 4), rng.randint(1, 2), rng.randint(2, 4)
    blocks = tuple(random_block(rng, w) for _ in range(rng.randint(0, 3)))
    outputs = rng.randint(1, 2)
    readouts = [Readout(random_matrix(rng, n, w), rng.choice(NUMBERS)) for _ in range(outputs)]
    return Blueprint(
        variables=("x", "y")[:d],
        dimensions=tuple(f"d{k}" for k in range(w)),
        embedding=Embedding(
            random_matrix(rng, n, d), rng.randrange(w), random_matrix(rng, n, w, filled=0.3)
        ),
        blocks=blocks,
        readouts=tuple(readouts),
        domain=Ball(Fraction(1)),
        degree=1,
        construction="none",
        vector=True,
    )


def random_block(rng: random.Random, w: int) -> Block:
    heads = []
    for _ in range(rng.randint(0, 2)):
        rows = rng.randint(0, 3)
        query, key = random_matrix(rng, rows, w), random_matrix(rng, rows, w)
        value = random_matrix(rng, w, w, filled=0.3)
        if rng.random() < 0.5:
            heads.append(BiasedHead(query, key, value, random_matrix(rng, rows, 1)))
        else:
            heads.append(Head(query, key, value))
    units = rng.randint(0, 3)
    layer = FeedForward(
        random_matrix(rng, units, w),
        random_matrix(rng, units, 1),
        random_matrix(rng, w, units),
        random_matrix(rng, w, 1),
        rng.choice([RELU, IDENTITY]),
    )
    rule = rng.choice([Rule.ONE_HOT_MAX, Rule.HARD_MAX])
    return Block(Attention(tuple(heads), Selection(rule)), layer)


def goals(blueprint: Blueprint, points: list[list[Fraction]], number: int) -> str:
    """Return a module that states the outputs of Python's runner at these points."""
    lines = [definitions(blueprint)]
    for point in points:
        values = run_exact(blueprint, point)
        values = values if isinstance(values, tuple) else (values,)
        x, y = listed(map(rational, point)), listed(map(rational, values))
        lines.append(f"Goal run model (map Q2R {x}) = map Q2R {y}.")
        lines.append(f"Proof. apply (output_at {blueprint.width}). vm_compute. reflexivity. Qed.")
    return module(f"case_{number}", "\n".join(lines))


HEADER = f"From Coq Require Import Qreals.\n{IMPORTS}From Exactformer Require Import Running.\n"


def random_point(rng: random.Random, d: int) -> list[Fraction]:
    return [Fraction(rng.randint(-8, 8), rng.choice([1, 2, 3])) for _ in range(d)]


def test_coq_runs_random_blueprints_as_python_does(coq):
    rng = random.Random(0)
    blueprints = [random_blueprint(rng) for _ in range(60)]
    cases = [
        goals(b, [random_point(rng, len(b.variables)) for _ in range(3)], number)
        for number, b in enumerate(blueprints)
    ]
    answer = compiled(coq, HEADER + "\n".join(cases))
    assert answer.returncode == 0, answer.stderr


def test_coq_runs_deep_constructions_as_python_does_inside_and_outside(coq):
    """Depth does not blow up, and outside the domain other tokens are selected by both."""
    cases, different = [], 0
    for number, construction in enumerate(["scaled", "paper", "doubling", "chebyshev"]):
        model = ef.compile("x^6 - 3 x y^2", radius=2, construction=construction)
        points = [[Fraction(1, 3), Fraction(-1)], [Fraction(7), Fraction(1)], [Fraction(0)] * 2]
        for x, y in points:
            different += run_exact(model.blueprint, [x, y]) != x**6 - 3 * x * y**2
        cases.append(goals(model.blueprint, points, number))
    assert different
    answer = compiled(coq, HEADER + "\n".join(cases))
    assert answer.returncode == 0, answer.stderr


def test_a_wrong_output_is_refused(coq):
    model = ef.compile("x^2", radius=1)
    text = goals(model.blueprint, [[Fraction(1, 2)]], 0)
    assert "map Q2R [(1 # 4)]" in text
    answer = compiled(coq, HEADER + text.replace("[(1 # 4)]", "[(1 # 5)]"))
    assert answer.returncode != 0
