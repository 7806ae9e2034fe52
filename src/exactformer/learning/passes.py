"""One pass over the data: sums over rows for every term at once, features made block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from exactformer.learning.orthogonal import Array
from exactformer.learning.sample import Sample
from exactformer.learning.terms import Terms


def inner_products(terms: Terms, sample: Sample, right: Array) -> Array:
    """Return Σ_i w_i φ_j(x_i) right_i for every term: (p, columns of ``right``)."""
    weighted = right * sample.weight[:, None]
    total = np.zeros((len(terms), right.shape[1]))
    for rows, features in _blocks(terms, sample):
        total += features @ weighted[rows]
    return total


def square_norms(terms: Terms, sample: Sample) -> Array:
    """Return Σ_i w_i φ_j(x_i)² for every term."""
    total = np.zeros(len(terms))
    for rows, features in _blocks(terms, sample):
        total += np.square(features, out=features) @ sample.weight[rows]
    return total


def residuals(terms: Terms, sample: Sample, coefficients: Array) -> Array:
    """Return Y − Σ_j c_j φ_j on the rows, (N, outputs)."""
    left = sample.Y.copy()
    for rows, features in _blocks(terms, sample):
        left[rows] -= features.T @ coefficients
    return left


def gram_times(terms: Terms, sample: Sample, direction: Array) -> Array:
    """Return the Gram matrix times ``direction`` (p, outputs), without forming it."""
    total = np.zeros_like(direction)
    for rows, features in _blocks(terms, sample):
        total += features @ ((features.T @ direction) * sample.weight[rows, None])
    return total


def _blocks(terms: Terms, sample: Sample) -> Iterator[tuple[slice, Array]]:
    # Each product is small: waking BLAS threads for it would cost more than the product.
    with threadpool_limits(1, user_api="blas"):
        yield from terms.blocks(sample.X)
