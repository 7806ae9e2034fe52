"""A Chebyshev expansion as ridges: Σ_α a_α T_α(u) = c + Σ_i Σ_s c_is T_s(ξ_i·u / ρ_i), |ξ_i·u| ≤ ρ_i.

Along well-spread directions, one for every form of degree q, the T_s(ξ_i·u / ρ_i) span all polynomials
of total degree q. Among the ways to write an expansion in them the one of least norm is taken, so that
coefficients stay of the size of the function and few digits are lost. It is found in float64; what is
compiled is the polynomial with exactly these coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, comb, frexp

import numpy as np

from exactformer.algebra.chebyshev import to_powers
from exactformer.algebra.ridge.form import Direction, RidgeForm, norm_bound
from exactformer.core.arrays import Array
from exactformer.polynomials.functions.chebyshev_expansion import Expansion

_STEPS = 256  # directions are rounded to this grid
_BITS = 64  # and coefficients to so many bits below the largest
_SPARE = 1.25  # random directions need some more than the least possible number


def direction_count(dimension: int, degree: int) -> int:
    """Return how many directions are used: C(d−1+q, q) where they can be spread evenly."""
    least = comb(dimension - 1 + degree, degree)
    return least if dimension <= 3 else ceil(_SPARE * least)


def expansion_ridges(expansion: Expansion, variables: Sequence[str]) -> list[RidgeForm]:
    """Return a ridge form for every output, along common directions."""
    dimension, degree = expansion.exponents.shape[1], expansion.degree
    if dimension == 1 or degree == 0:
        vectors: list[Direction] = [tuple(int(j == 0) for j in range(dimension))]
        table = np.zeros((degree + 1, 1, expansion.coefficients.shape[1]))
        table[expansion.exponents[:, 0], 0] = expansion.coefficients
    else:
        vectors = _directions(dimension, direction_count(dimension, degree))
        table = _least_norm(expansion, vectors)
    return [_form(table[:, :, k], vectors, variables) for k in range(table.shape[2])]


def _form(table: Array, vectors: list[Direction], variables: Sequence[str]) -> RidgeForm:
    """Return the ridge form of Σ c[s, i] T_s(t_i), exactly, the coefficients rounded to a grid."""
    degree = len(table) - 1
    grid = Fraction(2) ** (frexp(float(np.abs(table).max()))[1] - _BITS)
    directions, beta, constant = [], [], Fraction(0)
    for vector, column in zip(vectors, table.T, strict=True):
        scale = norm_bound(vector)
        direction = tuple(v / scale for v in vector)
        reach = sum(map(abs, direction), Fraction(0))
        powers = to_powers([round(Fraction(float(c)) / grid) * grid for c in column])
        constant += powers[0]
        directions.append(direction)
        beta.append(tuple(a / reach**s for s, a in enumerate(powers))[1:])
    return RidgeForm(
        tuple(variables), constant, tuple(directions), tuple(beta), degree, "chebyshev"
    )


def _directions(dimension: int, count: int) -> list[Direction]:
    """Return well-spread lines: evenly in the plane, by a spiral in space, at random beyond."""
    steps = np.arange(count) + 0.5
    if dimension == 2:
        angles = np.pi * steps / count
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    elif dimension == 3:
        height, turn = steps / count, steps * np.pi * (3 - np.sqrt(5))
        around = np.sqrt(1 - height**2)
        points = np.stack([around * np.cos(turn), around * np.sin(turn), height], axis=1)
    else:
        points = np.random.default_rng(0).normal(size=(count, dimension))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return [tuple(int(v) for v in row) for row in np.rint(_STEPS * points)]


def _least_norm(expansion: Expansion, vectors: list[Direction]) -> Array:
    """Return c[s, i, output] of least norm with Σ c[s, i] T_s(t_i) equal to the expansion.

    Both sides are compared at random points; there are more of them than polynomials of the degree,
    and Q, whose columns span the values of these, leaves as many equations as there are polynomials.
    """
    from scipy.linalg import solve_triangular

    degree, terms = expansion.degree, len(expansion.exponents)
    rng = np.random.default_rng(1)
    u = np.cos(np.pi * rng.random((2 * terms, expansion.exponents.shape[1])))
    lines = np.array(vectors, dtype=float)
    angles = np.arccos(np.clip(u @ lines.T / np.abs(lines).sum(axis=1), -1, 1))
    columns = [np.cos(s * angles) for s in range(1, degree + 1)]
    ridges = np.concatenate([np.ones((len(u), 1)), *columns], axis=1)
    Q = np.linalg.qr(Expansion(expansion.exponents, np.eye(terms), 0)(u))[0]
    basis, triangle = np.linalg.qr((Q.T @ ridges).T)
    solution = basis @ solve_triangular(triangle, Q.T @ expansion(u), trans="T")
    table = np.zeros((degree + 1, len(vectors), solution.shape[1]))
    table[1:] = solution[1:].reshape(degree, len(vectors), -1)
    table[0, 0] = solution[0]
    return table
