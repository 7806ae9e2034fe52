"""Blueprints that mutations begin with: small ones of every construction, and random ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from exactformer.algebra import Polynomial, Target
from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.layers import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.compile import local_forms
from exactformer.polynomials.constructions import APPROXIMATIONS, CONSTRUCTIONS, construct
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation

BASES = 600
"""How many different ones there are."""

_MOST_TOKENS = 6
_SIZES = [Fraction(1)] * 8 + [Fraction(s) for s in ("1/2", "2", "7/3", "3", "10", "1e-6", "1e3")]


@lru_cache(maxsize=BASES)
def base(index: int) -> tuple[Blueprint, Target | None, str]:
    """Return a blueprint, its target unless it was grown by hand, and where it comes from."""
    rng = random.Random(f"base {index}")
    kind = rng.random()
    if kind < 0.06:
        return _grown_softmax(rng), None, "grown softmax"
    if kind < 0.25:
        return _grown(rng), None, "grown"
    softmax = rng.random() < 0.1
    construction = rng.choice(list(APPROXIMATIONS if softmax else CONSTRUCTIONS))
    while True:
        d = rng.choice((1, 2, 2, 2, 3))
        names = [f"x{j + 1}" for j in range(d)]
        degree = rng.randint(1, 3 if softmax else 5)
        count = rng.choice((1, 1, 1, 2))
        found = [_polynomial(rng, names, degree) for _ in range(count)]
        target = Target(tuple(found), count > 1 or rng.random() < 0.1)
        extrapolation = Extrapolation(heads=rng.randint(1, 3), span=Fraction(13, 8))
        try:
            where = domain(rng, d)
            directions = rng.choice(("auto", "auto", "lattice", "spread", "tailored"))
            forms = local_forms(target, where, directions)
            options = {"extrapolation": extrapolation} if softmax else {}
            blueprint = construct(construction, forms, where, target, **options)
        except ExactformerError:
            continue  # such as a degree that this family of directions cannot have
        if blueprint.tokens <= _MOST_TOKENS:
            return blueprint, target, construction


def domain(rng: random.Random, d: int) -> Domain:
    """Return a ball or a box, about the origin or not."""
    centre = [
        Fraction(rng.choice((0, 0, 1, -2, 50, Fraction(1, 3), Fraction(1000, 3)))) for _ in range(d)
    ]
    if rng.random() < 0.6:
        moved = rng.random() < 0.25
        return Ball(rng.choice(_SIZES), tuple(centre) if moved else ())
    if rng.random() < 0.5:
        return Box((Fraction(0),) * d, (Fraction(1),) * d)
    return Box(tuple(centre), tuple(rng.choice(_SIZES) for _ in range(d)))


def rational(rng: random.Random) -> Fraction:
    """Return a small rational that is not zero."""
    return Fraction(rng.choice((-1, 1)) * rng.randint(1, 5), rng.choice((1, 1, 1, 2, 3, 4)))


def direction(rng: random.Random, d: int) -> list[Fraction]:
    """Return a direction: an axis, a diagonal, a rational unit vector, or any."""
    row = [Fraction(0)] * d
    kind = rng.random()
    if kind < 0.5:
        row[rng.randrange(d)] = Fraction(rng.choice((-1, 1)))
    elif kind < 0.75 and d > 1:
        i, j = rng.sample(range(d), 2)
        a, b, c = rng.choice(((3, 4, 5), (5, 12, 13), (8, 15, 17)))
        row[i], row[j] = Fraction(a * rng.choice((-1, 1)), c), Fraction(b, c)
    else:
        row = [Fraction(rng.randint(-2, 2), rng.randint(1, 3)) for _ in range(d)]
    return row


def _polynomial(rng: random.Random, names: Sequence[str], degree: int) -> Polynomial:
    """Return a few terms, the first of the full degree; many are powers of one variable."""
    terms = {}
    for k in range(rng.randint(1, 4)):
        exponents, size = [0] * len(names), rng.randint(0, degree) if k else degree
        if rng.random() < 0.5:
            exponents[rng.randrange(len(names))] = size
            size = 0
        for _ in range(size):
            exponents[rng.randrange(rng.randint(1, len(names)))] += 1
        terms[tuple(exponents)] = rational(rng)
    return Polynomial.from_terms(terms, names)


def _grown(rng: random.Random) -> Blueprint:
    """Return tokens along any directions, without blocks, with empty dimensions to write to."""
    d, n, empty = rng.choice((1, 2, 2, 2, 3)), rng.randint(2, 4), rng.randint(1, 3)
    w, where = n + empty + 2, domain(rng, d)
    rows = [direction(rng, d) for _ in range(n)]
    scales = [where.reach([(j, c) for j, c in enumerate(row) if c]) or Fraction(1) for row in rows]
    if rng.random() < 0.7:
        rows = [[c / scale for c in row] for row, scale in zip(rows, scales, strict=True)]
    constant: dict[tuple[int, int], Fraction | int] = {}
    for i, row in enumerate(rows):
        shift = sum((-c * where.offset(j) for j, c in enumerate(row)), Fraction(0))
        constant |= {(i, 0): shift, (i, 1 + i): 1, (i, w - 1): 1}
    features = {(i, j): c for i, row in enumerate(rows) for j, c in enumerate(row)}
    beta = {(i, 0): rational(rng) for i in range(n)}
    return Blueprint(
        variables=tuple(f"x{j + 1}" for j in range(d)),
        dimensions=tuple(f"dimension {k}" for k in range(w)),
        embedding=Embedding(Matrix.of(n, d, features), 0, Matrix.of(n, w, constant)),
        blocks=(),
        readouts=(Readout(Matrix.of(n, w, beta), rational(rng)),),
        domain=where,
        degree=1,
        construction="by hand",
    )


def _grown_softmax(rng: random.Random) -> Blueprint:
    """Return two tokens, one of them constant, and heads that read and write any dimensions.

    With two tokens attention is always shared between oneself and the other.
    """
    d, w, where = rng.choice((1, 2)), rng.randint(4, 6), Ball(Fraction(1))
    features = {} if rng.random() < 0.5 else {(0, j): c for j, c in enumerate(direction(rng, d))}
    constant = {(i, rng.randrange(w)): rational(rng) for i in (0, 0, 1, 1)}
    dimensions = range(w)

    def head() -> Head:
        read, compared, value = (rng.choices(dimensions, k=2) for _ in range(3))
        return Head(
            Matrix.of(1, w, {(0, read[0]): rational(rng) / 2}),
            Matrix.of(1, w, {(0, compared[0]): rational(rng) / 2}),
            Matrix.of(w, w, {(value[0], value[1]): rational(rng)}),
        )

    blocks = tuple(
        Block(
            Attention(tuple(head() for _ in range(rng.randint(1, 2))), Selection(Rule.SOFTMAX)),
            FeedForward(*(Matrix.of(*s, {}) for s in ((0, w), (0, 1), (w, 0), (w, 1)))),
        )
        for _ in range(rng.randint(1, 3))
    )
    beta = {(0, k): rational(rng) for k in rng.sample(dimensions, 3)}
    return Blueprint(
        variables=tuple(f"x{j + 1}" for j in range(d)),
        dimensions=tuple(f"dimension {k}" for k in dimensions),
        embedding=Embedding(Matrix.of(2, d, features), 0, Matrix.of(2, w, constant)),
        blocks=blocks,
        readouts=(Readout(Matrix.of(2, w, beta), Fraction(0)),),
        domain=where,
        degree=1,
        construction="softmax",
    )
