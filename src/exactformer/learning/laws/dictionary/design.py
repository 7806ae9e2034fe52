"""The design of a fit: features of a sample, a few terms at a time, and sums over its rows for all.

What is small is made once and kept: the columns' polynomials at every row, and the features of all
terms. What is not is made again when it is needed, block by block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from exactformer.learning.laws.dictionary.columns import Array, fit_columns
from exactformer.learning.laws.dictionary.terms import (
    Exponents,
    Terms,
    build_terms,
    multiply_values,
    products,
)
from exactformer.learning.laws.sample import Sample
from exactformer.learning.threads import one_blas_thread

# Arrays up to this size are kept for the time of a fit.
_KEPT_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Design:
    """A dictionary on a sample; ``values`` are those of the columns' polynomials (q + 1, d, N)."""

    sample: Sample
    terms: Terms
    values: Array | None

    @classmethod
    def of(cls, sample: Sample, degree: int) -> Design:
        """Return the dictionary of a degree for the columns of a sample."""
        shape = degree + 1, sample.X.shape[1], len(sample.X)
        values = np.empty(shape) if 8 * np.prod(shape) <= _KEPT_BYTES else None
        columns = fit_columns(sample.X, sample.weight, degree, values)
        if sample.highest is not None:
            columns = replace(columns, degree=np.minimum(columns.degree, sample.highest))
        return cls(sample, build_terms(columns, degree, sample.apart), values)

    def up_to(self, degree: int) -> Design:
        """Return the design of a lower degree; what is known of this one serves it."""
        if degree == self.terms.degree:
            return self
        values = None if self.values is None else self.values[: degree + 1]
        lower = Design(self.sample, self.terms.up_to(degree), values)
        stays = self.terms.total <= degree
        for name in ("features", "norms"):
            if (known := vars(self).get(name)) is not None:
                vars(lower)[name] = known[stays]
        return lower

    @cached_property
    def features(self) -> Array | None:
        """φ of all terms (p, N), if that is small."""
        if self.values is None or 8 * len(self.terms) * len(self.sample.X) > _KEPT_BYTES:
            return None
        return self.terms.features(self.values)

    @cached_property
    def norms(self) -> Array:
        """Σ_i w_i φ_j(x_i)² for every term."""
        if self.features is None:
            return _square_norms(self.terms, self.sample)
        return np.asarray(np.square(self.features) @ self.sample.weight)

    def inner_products(self, right: Array) -> Array:
        """Return Σ_i w_i φ_j(x_i) right_i for every term: (p, rows of ``right``)."""
        if self.features is None:
            return inner_products(self.terms, self.sample, right.T)
        return np.asarray(self.features @ (right * self.sample.weight).T)

    def rows(self, rows: slice) -> Array:
        """Return φ of all terms at some rows (p, rows)."""
        if self.features is None:
            return self.terms.features(self.terms.columns.evaluate(self.sample.X[rows]))
        return self.features[:, rows]

    def at(self, places: Sequence[int]) -> Array:
        """Return φ of the terms at some places (k, N)."""
        if self.features is None:
            return self.few([self.terms.exponents(j) for j in places])
        return self.features[places]

    def few(self, exponents: list[Exponents], rows: slice = slice(None)) -> Array:
        """Return φ_α for a handful of α (k, rows)."""
        if self.values is None:
            return products(exponents, self.terms.columns, self.sample.X[rows]).T
        return multiply_values(exponents, self.values[:, :, rows])


def inner_products(terms: Terms, sample: Sample, right: Array) -> Array:
    """Return Σ_i w_i φ_j(x_i) right_i for every term: (p, columns of ``right``)."""
    weighted = right * sample.weight[:, None]
    total = np.zeros((len(terms), right.shape[1]))
    for rows, features in blocks(terms, sample.X):
        total += features @ weighted[rows]
    return total


def _square_norms(terms: Terms, sample: Sample) -> Array:
    """Return Σ_i w_i φ_j(x_i)² for every term."""
    total = np.zeros(len(terms))
    for rows, features in blocks(terms, sample.X):
        total += np.square(features, out=features) @ sample.weight[rows]
    return total


def residuals(terms: Terms, sample: Sample, coefficients: Array) -> Array:
    """Return Y − Σ_j c_j φ_j on the rows, (N, outputs)."""
    left = sample.Y.copy()
    for rows, features in blocks(terms, sample.X):
        left[rows] -= features.T @ coefficients
    return left


def gram_times(terms: Terms, sample: Sample, direction: Array) -> Array:
    """Return the Gram matrix times ``direction`` (p, outputs), without forming it."""
    total = np.zeros_like(direction)
    for rows, features in blocks(terms, sample.X):
        total += features @ ((features.T @ direction) * sample.weight[rows, None])
    return total


def blocks(terms: Terms, X: Array) -> Iterator[tuple[slice, Array]]:
    """Yield (rows, φ) block by block, each small enough that one thread is quickest."""
    with one_blas_thread():
        yield from terms.blocks(X)
