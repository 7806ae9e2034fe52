"""Exact coefficients of polynomials along given directions, if there are any.

A form of degree s along r directions has r unknown coefficients: they are found from its values at as
many points and verified by multiplying out. Where powers are dependent, those most unlike each other
are used, which keeps coefficients small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from operator import mul
from random import Random

import numpy as np
from flint import fmpq, fmpq_mat, fmpq_mpoly

from exactformer.algebra.ridge.essential import linear
from exactformer.algebra.ridge.form import Direction
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
    """Return β with Σ_i β_ki (v_i·x)^s equal to the k-th form of degree s; ``None`` if none is."""
    if not any(len(form) for form in forms):
        return [[fmpq(0)] * len(directions) for _ in forms]
    if not directions:
        return None
    d = len(directions[0])
    points = _points(min(len(directions), comb(d - 1 + s, s)) + _MORE, d)
    table = [[fmpq(sum(map(mul, v, p))) ** s for v in directions] for p in points]
    columns = _well_spread(directions, s, len(pivots(table)))
    rows = pivots(transposed([[row[j] for j in columns] for row in table]))
    if len(rows) < len(columns):
        columns = pivots(table)
        rows = pivots(transposed([[row[j] for j in columns] for row in table]))
    chosen = fmpq_mat([[table[i][j] for j in columns] for i in rows])
    values = fmpq_mat([[fmpq(form(*points[i])) for form in forms] for i in rows])
    solution = chosen.solve(values)
    powers = [linear([fmpq(c) for c in directions[j]]) ** s for j in columns]
    fitted = []
    for k, form in enumerate(forms):
        beta, total = [fmpq(0)] * len(directions), ring(d).from_dict({})
        for i, j in enumerate(columns):
            if (c := fmpq(solution[i, k])) != 0:
                beta[j] = c
                total += powers[i] * c
        if total != form:
            return None
        fitted.append(beta)
    return fitted


def _well_spread(directions: Sequence[Direction], s: int, count: int) -> list[int]:
    """Return as many directions with the powers most unlike each other: pivots of their Gram matrix.

    The inner product of (v·x)^s and (w·x)^s, as forms, is (v·w)^s.
    """
    if count == len(directions):
        return list(range(count))
    # Longer integers than floats have are shortened first.
    unit = [np.array([c / max(map(abs, v)) for c in v]) for v in directions]
    vectors = np.array([v / np.linalg.norm(v) for v in unit])
    left = (vectors @ vectors.T) ** s
    chosen: list[int] = []
    for _ in range(count):
        diagonal = np.diag(left).copy()
        diagonal[chosen] = -np.inf
        best = int(diagonal.argmax())
        chosen.append(best)
        if diagonal[best] > 0:
            left = left - np.outer(left[:, best], left[best]) / diagonal[best]
    return sorted(chosen)


def _points(count: int, dimension: int) -> list[list[int]]:
    rng = Random(1)
    return [[rng.randint(-99, 99) for _ in range(dimension)] for _ in range(count)]
