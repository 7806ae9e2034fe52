"""The lattice family: all integer points α ≥ 0 with α_1 + … + α_d = q, n_q = C(d−1+q, q) of them.

The powers (α·x)^q form a basis of the forms of degree q, and for s < q the subset with
α_1 ≥ q − s, a translated lattice of order s, does the same in degree s. No linear system is solved:

The powers of linear forms are dual to point evaluation. With p(∂) the differential operator of a
form p of degree s, p(∂)(α·x)^s = s!·p(α). Let ℓ_α be the Lagrange form of node α (1 at α, 0 at the
other nodes); applying ℓ_α(∂) to Q_s = Σ β_α (α·x)^s leaves s!·β_α. On the hyperplane Σα = q the
Lagrange forms are products of linear factors,

    ℓ_α(x) = Π_i Π_{j<γ_i} (x_i − (o_i + j)·(x_1 + … + x_d)/q) / γ_i!,   α = (q−s)·e_1 + γ,

with o_1 = q − s and o_i = 0 otherwise. Nodes that agree in their first coordinates share their first
factors, so one walk over the tree of nodes differentiates each shared prefix once.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, factorial

from flint import fmpq, fmpq_mpoly

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.form import Direction, Ridges


def lattice_width(dimension: int, degree: int) -> int:
    """Return n_q, the dimension of the forms of this degree."""
    return comb(dimension - 1 + degree, degree) if dimension else 1


def lattice_points(dimension: int, degree: int) -> Iterator[Direction]:
    """Yield the integer points of the simplex, first coordinate descending."""
    if dimension == 1:
        yield (degree,)
        return
    for first in range(degree, -1, -1):
        for rest in lattice_points(dimension - 1, degree - first):
            yield (first, *rest)


def lattice_ridges(polynomial: Polynomial, order: int | None = None) -> Ridges:
    """Write a polynomial as ridges over the whole lattice of its degree, or of a higher order."""
    q, dimension = polynomial.degree if order is None else order, polynomial.dimension
    if q == 0:
        return {}
    ridges: dict[Direction, dict[int, fmpq]] = {a: {} for a in lattice_points(dimension, q)}
    for s in range(1, q + 1):
        for node, coefficient in _dual(polynomial.homogeneous(s).flint, s, q, dimension):
            ridges[node][s] = coefficient
    return ridges


def _dual(form: fmpq_mpoly, s: int, q: int, dimension: int) -> Iterator[tuple[Direction, fmpq]]:
    """Yield (α, ℓ_α(∂)form / s!) for the nodes of order s where it does not vanish."""

    def walk(gamma: Direction, rest: fmpq_mpoly, norm: int) -> Iterator[tuple[Direction, fmpq]]:
        if rest.is_zero():
            return
        left, axis = s - sum(gamma), len(gamma)
        if left == 0:
            padded = gamma + (0,) * (dimension - axis)
            yield (padded[0] + q - s, *padded[1:]), rest.leading_coefficient() / norm
            return
        if axis == dimension:
            return
        offset = q - s if axis == 0 else 0
        for j in range(left + 1):
            yield from walk((*gamma, j), rest, norm)
            rest = rest.derivative(axis) - _along_diagonal(rest, dimension) * fmpq(offset + j, q)
            norm *= j + 1

    yield from walk((), form, factorial(s))


def _along_diagonal(form: fmpq_mpoly, dimension: int) -> fmpq_mpoly:
    total = form.derivative(0)
    for axis in range(1, dimension):
        total += form.derivative(axis)
    return total
