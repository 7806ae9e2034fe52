"""What a solver returns: a polynomial to evaluate and to write down, with standard errors.

Three kinds, one protocol. All of them speak of all columns of the user's table; ``used`` says which
the solver saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from exactformer.learning.laws.dense.least_squares import Coefficients
from exactformer.learning.laws.dictionary.change_of_basis import (
    contract,
    expand,
    shorten,
    to_powers_sparse,
)
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.streaming import blocks
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, products
from exactformer.learning.laws.sparse.selection import Selection

# Writing the coefficients down may change values on the data by this share of the largest |y|.
_WRITTEN = 1e-10
_ROWS = 8192


@dataclass(frozen=True)
class Frame:
    """The columns a law speaks of: ``dimension`` of them, ``used`` ones seen, |x_j| ≤ ``reach``."""

    dimension: int
    used: NDArray[np.int64]
    reach: Array
    size: float

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


class Law(Protocol):
    """A fitted polynomial."""

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of all columns."""

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""

    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients; NaN where none is known."""

    def intercept(self) -> float:
        """Return the value at the origin."""

    @property
    def frame(self) -> Frame:
        """The columns it speaks of."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the residual."""

    @property
    def variance(self) -> float:
        """Variance of the residual."""


@dataclass(frozen=True)
class SparseLaw:
    """Few powers of x. Values are taken in the orthonormal basis, where nothing cancels."""

    frame: Frame
    exponents: tuple[Exponents, ...]
    coefficients: tuple[Fraction, ...]
    standard_errors: Array
    freedom: float
    variance: float
    columns: Columns
    basis: tuple[Exponents, ...]
    coordinates: Array

    @classmethod
    def of(cls, selection: Selection, columns: Columns, frame: Frame) -> SparseLaw:
        """Write the coefficients of a selection down and keep what is written."""
        found = dict(zip(selection.exponents, selection.coefficients, strict=True))
        written = frame.written(found)
        inner = contract(written, columns)
        return cls(
            frame,
            tuple(written),
            tuple(written.values()),
            selection.errors,
            selection.freedom,
            selection.variance,
            columns,
            tuple(inner),
            np.array([float(c) for c in inner.values()]),
        )

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of all columns."""
        out = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            phi = products(list(self.basis), self.columns, X[rows][:, self.frame.used])
            out[rows] = phi @ self.coordinates
        return out

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""
        return self.frame.ordered(dict(zip(self.exponents, self.coefficients, strict=True)))

    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients."""
        pairs = zip(self.exponents, self.standard_errors.tolist(), strict=True)
        return {self.frame.embed(alpha): error for alpha, error in pairs}

    def intercept(self) -> float:
        """Return the constant term, zero if it is not there."""
        return float(self.powers().get((0,) * self.frame.dimension, 0))


@dataclass(frozen=True)
class DenseLaw:
    """Every term up to a degree, with coefficients of the orthonormal products."""

    frame: Frame
    terms: Terms
    coordinates: Array
    standard_errors: Array
    freedom: float
    variance: float

    @classmethod
    def of(
        cls, found: Coefficients, output: int, errors: Array, terms: Terms, frame: Frame
    ) -> DenseLaw:
        """Take one output of a least-squares solution."""
        variance = float(found.variance[output])
        return cls(
            frame,
            terms,
            found.values[:, output],
            np.sqrt(variance) * errors,
            found.freedom,
            variance,
        )

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of all columns."""
        out = np.empty(len(X))
        for rows, features in blocks(self.terms, X[:, self.frame.used]):
            out[rows] = self.coordinates @ features
        return out

    @cached_property
    def _exponents(self) -> list[Exponents]:
        return [self.terms.exponents(j) for j in range(len(self.terms))]

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: exact coefficient of x^α}, highest degree first."""
        inner = dict(zip(self._exponents, map(Fraction, self.coordinates.tolist()), strict=True))
        return self.frame.ordered(self.frame.written(expand(inner, self.terms.columns)))

    def errors(self) -> dict[Exponents, float]:
        """Return the standard errors of those coefficients; NaN where none is known."""
        pairs = zip(self._exponents, self.standard_errors.tolist(), strict=True)
        return {self.frame.embed(alpha): error for alpha, error in pairs}

    def intercept(self) -> float:
        """Return the value at the origin."""
        return float(self.values(np.zeros((1, self.frame.dimension)))[0])


@dataclass(frozen=True)
class RidgeLaw:
    """The transformer of Theorem 3.5 itself: b + Σ_k Σ_s β[k, s] (F_k · x)^s."""

    frame: Frame
    F: Array
    beta: Array
    b: float
    freedom: float
    variance: float

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of all columns."""
        out = np.empty(len(X))
        rows = max(16, 2**20 // len(self.F))
        for start in range(0, len(X), rows):
            here = slice(start, start + rows)
            t = X[here][:, self.frame.used] @ self.F.T
            total = np.zeros_like(t)
            for s in range(self.beta.shape[1] - 1, -1, -1):
                total = (total + self.beta[:, s]) * t
            out[here] = total.sum(axis=1) + self.b
        return out

    def powers(self) -> dict[Exponents, Fraction]:
        """Return {α: coefficient of x^α}, highest degree first, multiplied out in float64."""
        from exactformer.learning.laws.dense.directions import multiply_out

        terms = multiply_out(self.F, self.beta, self.b)
        return self.frame.ordered({alpha: Fraction(c) for alpha, c in terms.items()})

    def errors(self) -> dict[Exponents, float]:
        """Return NaN for each term: training gives no standard errors."""
        return dict.fromkeys(self.powers(), float("nan"))

    def intercept(self) -> float:
        """Return b."""
        return self.b


def standard_errors(found: Coefficients, terms: Terms) -> Array:
    """Return the standard errors of the coefficients of x^α for σ = 1; NaN without a factor."""
    if found.factor is None:
        return np.full(len(terms), np.nan)
    powers = to_powers_sparse([terms.exponents(j) for j in range(len(terms))], terms.columns)
    inverse = solve_triangular(found.factor, np.eye(len(terms)), lower=True, overwrite_b=True)
    spread = np.zeros(len(terms))
    for start in range(0, len(terms), 256):  # (P L⁻ᵀ) row by row, without a second p × p array
        block = inverse[start : start + 256]
        spread += np.square(powers @ block.T).sum(axis=1)
    return np.sqrt(spread)
