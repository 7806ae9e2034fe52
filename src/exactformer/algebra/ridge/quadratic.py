"""Quadratic forms as sums of as many squares as their rank: LDLᵀ over the rationals.

Each step takes a vector v with vᵀAv ≠ 0 and the direction a = Av: A − aaᵀ/vᵀAv has a rank less by one.
With unit vectors v this is Lagrange's completion of squares, whose numbers are small but may cancel.
With v near the eigenvectors of what is left, directions are nearly orthogonal and nothing cancels. A
direction a that is to be used anyway saves another: v is then a solution of Av = a, if there is one
with aᵀv ≠ 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from flint import fmpq, fmpq_mat

from exactformer.algebra.rational import to_float
from exactformer.algebra.ridge.form import Direction
from exactformer.algebra.ridge.vectors import pivots, primitive

_STEPS = 64
"""Eigenvectors are rounded to this grid; what their rounding leaves over, later steps take up."""

_CANCELLATION = 4.0
"""Nearly orthogonal directions are taken where they cancel less than the simple ones by this factor."""

Square = tuple[Direction, fmpq]


def square_directions(matrix: fmpq_mat, used: Iterable[Direction] = ()) -> list[Direction]:
    """Return directions a_i, those of ``used`` that help first, with A = Σ c_i a_i a_iᵀ."""
    squares: list[Square] = []
    for direction in used:
        if (vector := _preimage(matrix, direction)) is not None:
            matrix = _step(matrix, vector, squares)
    simple, left = list[Square](), matrix
    while (unit := _simple(left)) is not None:
        left = _step(left, unit, simple)
    if len(simple) > 2 and _size(simple) > _CANCELLATION * _trace_norm(matrix):
        orthogonal, left = list[Square](), matrix
        for vector in _eigenvectors(matrix):
            left = _step(left, vector, orthogonal)
        while (unit := _simple(left)) is not None:
            left = _step(left, unit, orthogonal)
        if len(orthogonal) <= len(simple) and _size(orthogonal) * 2 < _size(simple):
            simple = orthogonal
    return [direction for direction, _ in (*squares, *simple)]


def _step(matrix: fmpq_mat, vector: Sequence[fmpq], squares: list[Square]) -> fmpq_mat:
    """Split a square off, along A·vector; do nothing where vᵀAv = 0."""
    column = matrix * fmpq_mat([[c] for c in vector])
    entries = [fmpq(c) for c in column.entries()]
    value = sum((v * a for v, a in zip(vector, entries, strict=True)), start=fmpq(0))
    if value == 0:
        return matrix
    direction = primitive(entries)
    factor = next(a / d for a, d in zip(entries, direction, strict=True) if d)
    squares.append((direction, factor * factor / value))
    return matrix - column * column.transpose() * (1 / value)


def _simple(matrix: fmpq_mat) -> list[fmpq] | None:
    """Return a unit vector, or a sum of two, with vᵀAv ≠ 0; ``None`` for the zero matrix."""
    n = matrix.nrows()
    sizes = [abs(to_float(fmpq(matrix[i, i]))) for i in range(n)]
    best = max(range(n), key=lambda i: sizes[i], default=0)
    if n and matrix[best, best] != 0:
        return [fmpq(int(i == best)) for i in range(n)]
    for i in range(n):
        for j in range(i):
            if matrix[i, j] != 0:
                return [fmpq(int(k in (i, j))) for k in range(n)]
    return None


def _preimage(matrix: fmpq_mat, direction: Direction) -> list[fmpq] | None:
    """Return v with Av = a and vᵀAv ≠ 0, if there is one."""
    n = matrix.nrows()
    own = pivots(matrix.tolist())
    if not own:
        return None
    square = fmpq_mat([[matrix[i, j] for j in own] for i in own])
    solution = square.solve(fmpq_mat([[fmpq(direction[i])] for i in own])).entries()
    vector = [fmpq(0)] * n
    for j, c in zip(own, solution, strict=True):
        vector[j] = fmpq(c)
    image = (matrix * fmpq_mat([[c] for c in vector])).entries()
    value = sum((v * d for v, d in zip(vector, direction, strict=True)), start=fmpq(0))
    fits = all(c == d for c, d in zip(image, direction, strict=True))
    return vector if fits and value != 0 else None


def _floats(matrix: fmpq_mat) -> np.ndarray:
    unit = max((abs(fmpq(c)) for c in matrix.entries()), default=fmpq(1)) or fmpq(1)
    return np.array([[to_float(fmpq(c) / unit) for c in row] for row in matrix.tolist()])


def _eigenvectors(matrix: fmpq_mat) -> list[list[fmpq]]:
    """Return short rational vectors near the eigenvectors, those of large eigenvalues first."""
    values, vectors = np.linalg.eigh(_floats(matrix))
    order = np.argsort(-np.abs(values), kind="stable")
    rounded = np.rint(vectors[:, order].T * _STEPS)
    return [[fmpq(int(c)) for c in row] for row in rounded]


def _trace_norm(matrix: fmpq_mat) -> float:
    """Return Σ|λ|, the least that Σ|c_i|‖a_i‖² can be."""
    unit = max((abs(fmpq(c)) for c in matrix.entries()), default=fmpq(1)) or fmpq(1)
    return float(np.abs(np.linalg.eigvalsh(_floats(matrix))).sum()) * to_float(unit)


def _size(squares: Sequence[Square]) -> float:
    """Return Σ|c_i|‖a_i‖²."""
    return sum(to_float(abs(c) * sum(v * v for v in a)) for a, c in squares)
