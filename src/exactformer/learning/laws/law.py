"""Fitted polynomials: to evaluate and to write down, with standard errors.

The three kinds have coefficients for all columns of the user's table; a solver sees the ``used`` ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from exactformer.learning.laws.dense.least_squares import Coefficients
from exactformer.learning.laws.dictionary.change_of_basis import (
    contract,
    enough_digits,
    expand,
    shorten,
    to_powers_sparse,
)
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.design import blocks
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, products
from exactformer.learning.laws.sparse.selection import Selection

# Writing the coefficients down may change values on the data by this share of the largest |y|.
_WRITTEN = 1e-10
_ROWS = 8192


@dataclass(frozen=True)
class DataRange:
    """The data of a fit: ``dimension`` columns, those ``used``, |x_j| ≤ ``reach``, |y| ≤ ``size``."""

    dimension: int
    used: NDArray[np.int64]
    reach: Array
    size: float

    @classmethod
    def each(
        cls, dimension: int, used: NDArray[np.int64], reach: Array, sizes: Array
    ) -> list[DataRange]:
        """Return the range of each output; ``reach`` is that of the used columns alone."""
        full = np.zeros(dimension)
        full[used] = reach
        return [cls(dimension, used, full, size) for size in sizes.tolist()]

    def embed(self, alpha: Exponents) -> Exponents:
        """Return exponents over all columns."""
        full = [0] * self.dimension
        for j, k in zip(self.used.tolist(), alpha, strict=True):
            full[j] = k
        return tuple(full)

    def ordered(self, terms: dict[Exponents, Fraction]) -> dict[Exponents, Fraction]:
        """Return terms over all columns, highest degree first."""
        full = {self.embed(alpha): c for alpha, c in terms.items()}
        return dict(sorted(full.items(), key=lambda t: (-sum(t[0]), [-k for k in t[0]])))

    def written(self, terms: dict[Exponents, Fraction]) -> dict[Exponents, Fraction]:
        """Round coefficients to what the data's own reach needs."""
        return shorten(terms, self.reach[self.used], _WRITTEN * self.size)

    def errors(self, alphas: Iterable[Exponents], errors: Array) -> dict[Exponents, float]:
        """Return standard errors by exponents over all columns."""
        return dict(zip(map(self.embed, alphas), errors.tolist(), strict=True))


@dataclass(frozen=True)
class Law(ABC):
    """A fitted polynomial, with the degrees of freedom and the variance of its residual."""

    data_range: DataRange
    freedom: float
    variance: float

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of all columns."""
        used = self.data_range.used
        return self.inner_values(X if len(used) == X.shape[1] else X[:, used])

    @abstractmethod
    def inner_values(self, X: Array) -> Array:
        """Return the values (N,) at rows of the used columns."""

    @abstractmethod
    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""

    @abstractmethod
    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients; NaN where none is known."""

    def intercept(self) -> float:
        """Return the value at the origin."""
        return float(self.values(np.zeros((1, self.data_range.dimension)))[0])


@dataclass(frozen=True)
class SparseLaw(Law):
    """Few powers of x. Values are taken in the orthonormal basis, where nothing cancels."""

    coefficients: dict[Exponents, Fraction]
    standard_errors: Array
    columns: Columns
    basis: list[Exponents]
    coordinates: Array

    @classmethod
    def of(cls, selection: Selection, columns: Columns, data_range: DataRange) -> SparseLaw:
        """Round the coefficients of a selection to those that are written down."""
        found = dict(zip(selection.exponents, selection.coefficients, strict=True))
        written = data_range.written(found)
        with enough_digits(found, columns):
            exact = {a: Decimal(c.numerator) / Decimal(c.denominator) for a, c in written.items()}
            inner = contract(exact, columns, Decimal)
        coordinates = np.array([float(c) for c in inner.values()])
        fit = data_range, selection.freedom, selection.variance
        highest = max((max(alpha, default=0) for alpha in inner), default=0)
        basis = columns.up_to(highest), list(inner)
        return cls(*fit, written, selection.errors, *basis, coordinates)

    def inner_values(self, X: Array) -> Array:
        """Return the values (N,) at rows of the used columns."""
        out = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            out[rows] = products(self.basis, self.columns, X[rows]) @ self.coordinates
        return out

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""
        return self.data_range.ordered(self.coefficients)

    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients."""
        return self.data_range.errors(self.coefficients, self.standard_errors)

    def intercept(self) -> float:
        """Return the constant term, zero if it is not there."""
        return float(self.powers().get((0,) * self.data_range.dimension, 0))


@dataclass(frozen=True)
class DenseLaw(Law):
    """Every term up to a degree, with coefficients of the orthonormal products."""

    terms: Terms
    coordinates: Array
    standard_errors: Array

    @classmethod
    def each(
        cls, found: Coefficients, terms: Terms, data_ranges: list[DataRange]
    ) -> list[DenseLaw]:
        """Return the law of each output of a least-squares solution."""
        errors = _standard_errors(found, terms)
        outputs = zip(data_ranges, found.values.T, found.variance.tolist(), strict=True)
        return [
            cls(data_range, found.freedom, variance, terms, values, np.sqrt(variance) * errors)
            for data_range, values, variance in outputs
        ]

    def inner_values(self, X: Array) -> Array:
        """Return the values (N,) at rows of the used columns."""
        out = np.empty(len(X))
        for rows, features in blocks(self.terms, X):
            out[rows] = self.coordinates @ features
        return out

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""
        coordinates = map(Fraction, self.coordinates.tolist())
        inner = dict(zip(self.terms.all_exponents(), coordinates, strict=True))
        return self.data_range.ordered(self.data_range.written(expand(inner, self.terms.columns)))

    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients; NaN where none is known."""
        return self.data_range.errors(self.terms.all_exponents(), self.standard_errors)


@dataclass(frozen=True)
class RidgeLaw(Law):
    """The transformer of Theorem 3.5 itself: b + Σ_k Σ_s β[k, s] (F_k · x)^s."""

    F: Array
    beta: Array
    b: float

    def inner_values(self, X: Array) -> Array:
        """Return the values (N,) at rows of the used columns."""
        out = np.empty(len(X))
        rows = max(16, 2**20 // len(self.F))
        for start in range(0, len(X), rows):
            here = slice(start, start + rows)
            t = X[here] @ self.F.T
            total = np.zeros_like(t)
            for s in range(self.beta.shape[1] - 1, -1, -1):
                total = (total + self.beta[:, s]) * t
            out[here] = total.sum(axis=1) + self.b
        return out

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: coefficient of x^α}, highest degree first, multiplied out in float64."""
        from exactformer.learning.laws.dense.directions import multiply_out

        terms = multiply_out(self.F, self.beta, self.b)
        return self.data_range.ordered({alpha: Fraction(c) for alpha, c in terms.items()})

    def errors(self) -> dict[Exponents, float]:
        """Return NaN for each term: training gives no standard errors."""
        return dict.fromkeys(self.powers(), float("nan"))


def plain_powers(law: Law, columns: int) -> dict[Exponents, Fraction] | None:
    """Return the powers of the first columns; None if the law has a term with one of the others."""
    terms = law.powers()
    if any(any(alpha[columns:]) for alpha in terms):
        return None
    return {alpha[:columns]: c for alpha, c in terms.items()}


def _standard_errors(found: Coefficients, terms: Terms) -> Array:
    """Return the standard errors of the coefficients of x^α for σ = 1; NaN without a factor."""
    if found.factor is None:
        return np.full(len(terms), np.nan)
    powers = to_powers_sparse(terms.all_exponents(), terms.columns)
    inverse = solve_triangular(found.factor, np.eye(len(terms)), lower=True, overwrite_b=True)
    spread = np.zeros(len(terms))
    for start in range(0, len(terms), 256):  # (P L⁻ᵀ) row by row, without a second p × p array
        block = inverse[start : start + 256]
        spread += np.square(powers @ block.T).sum(axis=1)
    return np.sqrt(spread)
