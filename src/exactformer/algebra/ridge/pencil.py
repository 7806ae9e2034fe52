"""Sums of few powers, found as the eigenvectors of a pencil of catalecticant matrices.

Let F = Σ_j β_j (ξ_j·x)^s with coefficients a_γ·s!/γ!, so that a_γ = Σ_j β_j ξ_j^γ. With a + b = s − 1
the matrices H_i[α, β] = a_(α+β+e_i), |α| = a, |β| = b, are

    H_i = V_a D_i V_bᵀ,     D_i = diag(β_j ξ_ji),   columns of V_a: all monomials of degree a at ξ_j.

If the columns are independent, the rank of a general combination H_w is the number of powers, and with
r of its rows and columns

    H_i H_w⁻¹ = V_a (D_i D_w⁻¹) V_a⁻¹:

common eigenvectors, one for each power, whose eigenvalues ξ_ji / (w·ξ_j) are the direction. Everything
is rational if the directions are. For a = b = 1 this finds up to d powers, for a = b = 2 up to d(d +
1)/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from random import Random

from flint import fmpq, fmpq_mat

from exactformer.algebra.ridge.form import Direction
from exactformer.algebra.ridge.vectors import kernel, pivots, primitive, reduced, transposed
from exactformer.algebra.ring import Exponents

_MAX_POWERS = 64
_MAX_ENTRIES = 250_000

Matrix = list[list[fmpq]]


def pencil_directions(form: Mapping[Exponents, fmpq], dimension: int) -> list[Direction] | None:
    """Return the directions of a form of degree 3 or more, or ``None`` where it has no such few."""
    s = sum(next(iter(form)))
    a = (s - 1) // 2
    if dimension * catalecticant_entries(dimension, a, s - 1 - a) > _MAX_ENTRIES:
        return None
    slices = _slices(form, dimension, a, s)
    rng = Random(0)
    w, u = ([rng.randint(1, 10**5) for _ in range(dimension)] for _ in range(2))
    general = _combined(slices, w)
    columns = pivots(general)
    rows = pivots(transposed([[row[j] for j in columns] for row in general]))
    if not 0 < len(columns) == len(rows) <= _MAX_POWERS:
        return None

    def part(matrix: Matrix) -> fmpq_mat:
        return fmpq_mat([[matrix[i][j] for j in columns] for i in rows])

    if not _splits(part(general), part(_combined(slices, u))):
        return None
    inverse = part(general).inv()
    multiplications = [part(own) * inverse for own in slices]
    whole = part(_combined(slices, u)) * inverse
    directions = []
    for place, vector in _eigenvectors(whole):
        column = fmpq_mat([[c] for c in vector])
        directions.append(primitive([fmpq((m * column)[place, 0]) for m in multiplications]))
    return directions if len(set(directions)) == len(rows) else None


def catalecticant(form: Mapping[Exponents, fmpq], dimension: int, a: int) -> Matrix:
    """Return the matrix a_(α+β), |α| = a: its rank is at most the number of powers of any sum."""
    s = sum(next(iter(form)))
    low, high = _monomials(dimension, a), _monomials(dimension, s - a)
    return [[_coefficient(form, _plus(α, β)) for β in high] for α in low]


def _slices(form: Mapping[Exponents, fmpq], dimension: int, a: int, s: int) -> list[Matrix]:
    low, high = _monomials(dimension, a), _monomials(dimension, s - 1 - a)
    units = _monomials(dimension, 1)
    return [[[_coefficient(form, _plus(α, β, e)) for β in high] for α in low] for e in units]


def _splits(general: fmpq_mat, other: fmpq_mat) -> bool:
    """Whether the eigenvalues are different and in the field, modulo a prime: a quick no to most."""
    left, right = (reduced(matrix.tolist()) for matrix in (other, general))
    characteristic = (left * right.inv()).charpoly()
    return all(factor.degree() == 1 and power == 1 for factor, power in characteristic.factor()[1])


def _eigenvectors(matrix: fmpq_mat) -> list[tuple[int, list[fmpq]]]:
    """Return an eigenvector for every rational eigenvalue, with a place where it does not vanish."""
    found = []
    for factor, _ in matrix.charpoly().factor()[1]:
        if factor.degree() == 1:
            eigenvalue = -fmpq(factor[0]) / fmpq(factor[1])
            shifted = [
                [fmpq(c) - (eigenvalue if i == j else 0) for j, c in enumerate(row)]
                for i, row in enumerate(matrix.tolist())
            ]
            vector = kernel(shifted, matrix.nrows())[0]
            found.append((next(i for i, c in enumerate(vector) if c != 0), vector))
    return found


def _combined(slices: list[Matrix], weights: list[int]) -> Matrix:
    return [
        [
            sum((w * c for w, c in zip(weights, cell, strict=True)), fmpq(0))
            for cell in zip(*rows, strict=True)
        ]
        for rows in zip(*slices, strict=True)
    ]


def _coefficient(form: Mapping[Exponents, fmpq], exponents: Exponents) -> fmpq:
    if exponents not in form:
        return fmpq(0)
    return form[exponents] * fmpq(prod(map(factorial, exponents)), factorial(sum(exponents)))


def _monomials(dimension: int, degree: int) -> list[Exponents]:
    return [
        tuple(chosen.count(j) for j in range(dimension))
        for chosen in combinations_with_replacement(range(dimension), degree)
    ]


def _plus(*exponents: Exponents) -> Exponents:
    return tuple(map(sum, zip(*exponents, strict=True)))


def catalecticant_entries(dimension: int, a: int, b: int) -> int:
    """Return the number of entries of the matrix of orders a and b."""
    return comb(dimension - 1 + a, a) * comb(dimension - 1 + b, b)


def common_squares(matrices: list[fmpq_mat]) -> list[Direction] | None:
    """Return directions in which several quadratic forms are sums of squares together, if general."""
    rng = Random(2)
    first, second = (
        sum(
            (m * rng.randint(1, 10**5) for m in matrices[1:]),
            start=matrices[0] * rng.randint(1, 10**5),
        )
        for _ in range(2)
    )
    own = pivots(first.tolist())
    if not 0 < len(own) <= _MAX_POWERS:
        return None

    def part(matrix: fmpq_mat, rows: Sequence[int]) -> fmpq_mat:
        return fmpq_mat([[matrix[i, j] for j in own] for i in rows])

    if not _splits(part(first, own), part(second, own)):
        return None
    inverse = part(first, own).inv()
    whole, lift = part(second, own) * inverse, part(first, range(first.nrows())) * inverse
    vectors = [fmpq_mat([[c] for c in v]) for _, v in _eigenvectors(whole)]
    directions = [primitive([fmpq(c) for c in (lift * v).entries()]) for v in vectors]
    return directions if len(set(directions)) == len(own) else None
