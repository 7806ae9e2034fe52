"""Exact coefficients of polynomials along given directions, if there are any.

A form of degree s along r directions has r unknown coefficients: they are found from its values at as
many points and verified by multiplying out. Where powers are dependent, the coefficients of least norm
are taken, each power scaled to size one on the unit ball.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from random import Random

from flint import fmpq, fmpq_mat, fmpq_mpoly

from exactformer.algebra.rational import to_fmpq
from exactformer.algebra.ridge.essential import linear
from exactformer.algebra.ridge.form import Direction, norm_bound
from exactformer.algebra.ridge.vectors import pivots, transposed
from exactformer.algebra.ring import ring

_MORE = 8
"""Points more than unknowns, some of which may be unlucky."""


def homogeneous(polynomial: fmpq_mpoly, degree: int, dimension: int) -> fmpq_mpoly:
    """Return the part of exactly this degree."""
    part = {a: c for a, c in polynomial.to_dict().items() if sum(a) == degree}
    return ring(dimension).from_dict(part)


def fitted_powers(
    forms: Sequence[fmpq_mpoly], s: int, directions: Sequence[Direction]
) -> list[list[fmpq]] | None:
    """Return β with Σ_i β_ki (v_i·x)^s equal to the k-th form of degree s; ``None`` if there is none."""
    if not any(len(form) for form in forms):
        return [[fmpq(0)] * len(directions) for _ in forms]
    if not directions:
        return None
    d = len(directions[0])
    points = _points(min(len(directions), comb(d - 1 + s, s)) + _MORE, d)
    sizes = [to_fmpq(norm_bound(v)) ** s for v in directions]
    table = [
        [
            fmpq(sum(a * b for a, b in zip(v, p, strict=True))) ** s / size
            for v, size in zip(directions, sizes, strict=True)
        ]
        for p in points
    ]
    rows = pivots(transposed(table))
    chosen = fmpq_mat([table[i] for i in rows])
    values = fmpq_mat([[fmpq(form(*points[i])) for form in forms] for i in rows])
    if len(rows) == len(directions):
        solution = chosen.solve(values)
    else:
        solution = chosen.transpose() * (chosen * chosen.transpose()).solve(values)
    powers = [linear([fmpq(c) for c in v]) ** s for v in directions]
    columns = []
    for k, form in enumerate(forms):
        beta = [fmpq(solution[i, k]) / size for i, size in enumerate(sizes)]
        total = ring(d).from_dict({})
        for power, c in zip(powers, beta, strict=True):
            if c != 0:
                total += power * c
        if total != form:
            return None
        columns.append(beta)
    return columns


def _points(count: int, dimension: int) -> list[list[int]]:
    rng = Random(1)
    return [[rng.randint(-99, 99) for _ in range(dimension)] for _ in range(count)]
