"""The spread family: twice as many directions as needed, so that coefficients stay small.

The lattice (n_q directions) is joined by as many random ones. In floating point the coefficients of
least norm are found for all of them and rounded to dyadic rationals; what the rounding leaves over
is an exact polynomial, and the lattice takes it up exactly. The correction is of rounding size, so
the identity is exact and the conditioning stays that of the overcomplete set.
"""

from __future__ import annotations

from math import factorial, prod

import numpy as np
from flint import fmpq, fmpq_mpoly
from numpy.typing import NDArray

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.form import Direction, Ridges
from exactformer.algebra.ridge.lattice import lattice_points, lattice_ridges, lattice_width
from exactformer.algebra.ring import Exponents, ring
from exactformer.errors import SizeError

MAX_LATTICE = 4000
_DIRECTION_STEPS = 1024  # random directions are rounded to this grid before anything is solved
_COEFFICIENT_BITS = 40


def spread_ridges(polynomial: Polynomial, order: int | None = None, seed: int = 0) -> Ridges:
    """Write a polynomial as well-conditioned ridges along 2·n_q directions, q its degree or more."""
    q, dimension = polynomial.degree if order is None else order, polynomial.dimension
    if q == 0:
        return {}
    if (width := lattice_width(dimension, q)) > MAX_LATTICE:
        raise SizeError(
            f"directions='spread' solves a dense system of size n_q = {width:,}, the limit is "
            f"{MAX_LATTICE:,}; use 'lattice' or 'tailored', or a lower degree"
        )
    nodes = list(lattice_points(dimension, q))
    vectors = nodes + _random_directions(width, set(nodes), dimension, seed)
    ridges: dict[Direction, dict[int, fmpq]] = {v: {} for v in vectors}
    residual = polynomial.flint
    for s in range(1, q + 1):
        form = polynomial.homogeneous(s)
        if len(form):
            for vector, coefficient in _least_norm(form, s, vectors).items():
                ridges[vector][s] = coefficient
                residual -= _linear(vector) ** s * coefficient
    correction = Polynomial(polynomial.variables, residual)
    for vector, powers in lattice_ridges(correction, q).items():
        for s, coefficient in powers.items():
            ridges[vector][s] = ridges[vector].get(s, fmpq(0)) + coefficient
    return ridges


def _random_directions(
    count: int, taken: set[Direction], dimension: int, seed: int
) -> list[Direction]:
    rng = np.random.default_rng(seed)
    if dimension == 1:
        return []
    found: dict[Direction, None] = {}
    while len(found) < count:
        vector = rng.normal(size=dimension)
        vector *= _DIRECTION_STEPS / np.linalg.norm(vector)
        candidate = tuple(int(v) for v in np.rint(vector))
        if candidate not in taken:
            found.setdefault(candidate)
    return list(found)


def _least_norm(form: Polynomial, s: int, vectors: list[Direction]) -> dict[Direction, fmpq]:
    """Return dyadic coefficients β with Σ β (v·x)^s ≈ form and the weighted norm of β least.

    In the basis √(s!/a!)·x^a the inner product of (v·x)^s and (w·x)^s is (v·w)^s, so unit vectors
    have unit columns and the Gram matrix is well scaled.
    """
    terms = form.terms()
    exponents = list(lattice_points(form.dimension, s))
    unit = max(abs(c) for c in terms.values())  # huge and tiny coefficients alike
    right = np.array([float(terms.get(a, 0) / unit) / _weight(a) for a in exponents])
    norms = np.array([np.linalg.norm(v) for v in vectors])
    columns = _veronese(np.array(vectors, dtype=float) / norms[:, None], exponents)
    solution = columns @ np.linalg.lstsq(columns.T @ columns, right, rcond=None)[0]
    scale = fmpq(unit.numerator, unit.denominator)
    power = s * np.log2(norms)  # ‖v‖^s itself overflows from degree 100 on
    whole = np.floor(power)
    return {
        v: _dyadic(float(b)) * scale / fmpq(2) ** int(k)
        for v, b, k in zip(vectors, solution * 2 ** (whole - power), whole, strict=True)
        if b != 0
    }


def _veronese(points: NDArray[np.float64], exponents: list[Exponents]) -> NDArray[np.float64]:
    powers = points[:, :, None] ** np.arange(max(sum(exponents[0]), 1) + 1)
    result = np.tile(np.array([_weight(a) for a in exponents]), (len(points), 1))
    for axis, column in enumerate(np.array(exponents).T):
        result *= powers[:, axis, column]
    return result


def _weight(a: Exponents) -> float:
    return float(np.sqrt(factorial(sum(a)) / prod(factorial(e) for e in a)))


def _dyadic(value: float) -> fmpq:
    """Round to a short dyadic rational: powers of two are the only denominators worth summing."""
    mantissa, exponent = np.frexp(value)
    shift = _COEFFICIENT_BITS - int(exponent)
    return fmpq(round(float(mantissa) * 2**_COEFFICIENT_BITS)) / fmpq(2) ** shift


def _linear(vector: Direction) -> fmpq_mpoly:
    dimension = len(vector)
    unit = [tuple(int(i == j) for j in range(dimension)) for i in range(dimension)]
    return ring(dimension).from_dict({unit[i]: fmpq(v) for i, v in enumerate(vector) if v})
