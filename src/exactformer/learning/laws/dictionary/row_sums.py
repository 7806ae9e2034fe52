"""One pass over the data: sums over rows for every term at once, features made block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import Terms
from exactformer.learning.laws.sample import Sample
from exactformer.learning.threads import one_blas_thread


def inner_products(terms: Terms, sample: Sample, right: Array) -> Array:
    """Return Σ_i w_i φ_j(x_i) right_i for every term: (p, columns of ``right``)."""
    weighted = right * sample.weight[:, None]
    total = np.zeros((len(terms), right.shape[1]))
    for rows, features in blocks(terms, sample.X):
        total += features @ weighted[rows]
    return total


def square_norms(terms: Terms, sample: Sample) -> Array:
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
