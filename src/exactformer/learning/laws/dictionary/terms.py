"""The dictionary: products of the columns' orthonormal polynomials up to a total degree.

    φ_α(x) = Π_j p_{α_j}(x_j),     |α| ≤ q,  α_j ≤ degree of column j

The set of exponents is downward closed, so φ_α and x^α span the same polynomials. A term is its
parent (the same exponents without the last variable) times one factor p_k(x_j); laid out by
(j, k), all terms with the same factor are contiguous and cost one multiplication each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np
from numpy.typing import NDArray

from exactformer.core.words import readable
from exactformer.errors import SizeError
from exactformer.learning.laws.dictionary.columns import Array, Columns

Exponents = tuple[int, ...]

# Rows are taken in blocks whose features stay in a processor's cache.
_BLOCK_BYTES = 4 * 2**20
_MIN_ROWS = 16


@dataclass(frozen=True)
class Terms:
    """All φ_α up to a total degree, as (parent, column, power); term 0 is the constant."""

    columns: Columns
    degree: int
    parent: NDArray[np.int64]
    column: NDArray[np.int32]
    power: NDArray[np.int32]
    total: NDArray[np.int32]
    groups: tuple[tuple[int, int, int, int], ...]

    def __len__(self) -> int:
        return len(self.parent)

    def exponents(self, index: int) -> Exponents:
        """Return α of one term."""
        alpha = [0] * self.columns.count
        while index:
            alpha[self.column[index]] = int(self.power[index])
            index = int(self.parent[index])
        return tuple(alpha)

    def all_exponents(self) -> list[Exponents]:
        """Return α of every term."""
        return [self.exponents(j) for j in range(len(self))]

    def up_to(self, degree: int) -> Terms:
        """Return the terms up to a lower degree, in the same order."""
        stays = self.total <= degree
        ends = np.concatenate([[0], np.cumsum(stays)])
        groups = tuple(
            (j, k, int(ends[start]), int(ends[stop]))
            for j, k, start, stop in self.groups
            if k <= degree
        )
        parent = ends[self.parent[stays]]
        factors = self.column[stays], self.power[stays], self.total[stays]
        return Terms(self.columns.up_to(degree), degree, parent, *factors, groups)

    def features(self, values: Array, out: Array | None = None) -> Array:
        """Return φ (p, N) from the columns' values (q + 1, d, N)."""
        out = np.empty((len(self), values.shape[2])) if out is None else out
        out[0] = 1.0
        for column, power, start, stop in self.groups:
            np.multiply(out[self.parent[start:stop]], values[power, column], out=out[start:stop])
        return out

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, φ) with φ of shape (p, rows), block by block of rows."""
        rows = max(_MIN_ROWS, _BLOCK_BYTES // (8 * len(self)))
        for start in range(0, len(X), rows):
            here = slice(start, min(start + rows, len(X)))
            yield here, self.features(self.columns.evaluate(X[here]))


def count_terms(columns: int, degree: int) -> int:
    """Return C(d + q, q), the number of monomials of degree at most q in d variables."""
    return comb(columns + degree, degree)


def build_terms(columns: Columns, degree: int, apart: tuple[tuple[int, int], ...] = ()) -> Terms:
    """Lay out every α with |α| ≤ ``degree`` that the columns' own degrees allow.

    A pair (i, j) of ``apart`` is of columns that no term holds together.
    """
    parent = [np.zeros(1, dtype=np.int64)]
    factor_column, factor_power = [np.zeros(1, dtype=np.int32)], [np.zeros(1, dtype=np.int32)]
    total = np.zeros(1, dtype=np.int32)
    groups: list[tuple[int, int, int, int]] = []
    partners = {max(pair): min(pair) for pair in apart}
    holds = {i: np.zeros(1, dtype=bool) for i in partners.values()}
    for j in range(columns.count):
        before = total
        free = ~holds[partners[j]] if j in partners else np.ones(len(total), dtype=bool)
        for k in range(1, min(degree, int(columns.degree[j])) + 1):
            parents = np.flatnonzero((before <= degree - k) & free)
            start = len(total)
            total = np.concatenate([total, before[parents] + np.int32(k)])
            parent.append(parents)
            factor_column.append(np.full(len(parents), j, dtype=np.int32))
            factor_power.append(np.full(len(parents), k, dtype=np.int32))
            groups.append((j, k, start, len(total)))
            for i, held in holds.items():
                holds[i] = np.concatenate([held, held[parents] | (i == j)])
    return Terms(
        columns,
        degree,
        np.concatenate(parent),
        np.concatenate(factor_column),
        np.concatenate(factor_power),
        total,
        tuple(groups),
    )


def products(exponents: list[Exponents], columns: Columns, X: Array) -> Array:
    """Return φ_α(x) for a handful of α as an array (N, k)."""
    table = np.array(exponents).reshape(len(exponents), columns.count)
    there = np.flatnonzero(table.any(axis=0))
    values = columns.some(there, int(table.max(initial=0))).evaluate(X[:, there])
    few: list[Exponents] = [tuple(alpha) for alpha in table[:, there].tolist()]
    return np.ascontiguousarray(multiply_values(few, values).T)


def multiply_values(exponents: list[Exponents], values: Array) -> Array:
    """Return φ_α for a handful of α as an array (k, N), from the columns' values (q + 1, d, N)."""
    out = np.ones((len(exponents), values.shape[2]))
    for row, alpha in zip(out, exponents, strict=True):
        for j, k in enumerate(alpha):
            if k:
                row *= values[k, j]
    return out


def lower_closure(exponents: list[Exponents]) -> list[Exponents]:
    """Return all β ≤ α (componentwise) for the given α, in graded order, the constant first."""
    closed = {beta for alpha in exponents for beta in below(alpha)}
    return sorted(sorted(closed, reverse=True), key=sum)


def below(alpha: Exponents) -> Iterator[Exponents]:
    """Yield all β ≤ α."""
    return product(*(range(k + 1) for k in alpha))


def check_size(terms: int, needed: int, limit: int, what: str) -> None:
    """Refuse early what would not fit."""
    if needed > limit:
        raise SizeError(
            f"{terms:,} terms need {readable(needed)} for {what}; the limit is "
            f"{readable(limit)}. Lower degree=, give fewer columns, or raise memory_limit="
        )
