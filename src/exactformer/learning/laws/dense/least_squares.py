"""All terms at once: least squares over every polynomial of a degree.

The features are orthonormal for the columns' own samples, so their Gram matrix is near N times the
identity when the columns are independent, and the blocked normal equations lose no digits that the
data had. The Gram matrix has 8p² bytes; where that is too much, conjugate gradients need only
products with it, one pass over the data each, and memory stays linear in the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.linalg.blas import dsyrk

from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import (
    Design,
    gram_times,
    inner_products,
    residuals,
)
from exactformer.learning.laws.dictionary.terms import Terms
from exactformer.learning.laws.sample import Sample

# A term with less than this share of its square norm outside the earlier ones is undetermined.
_UNDETERMINED = 1e-10
_GRAM_ROWS = 2048
_CG_TOLERANCE = 1e-12
_CG_STEPS = 2000


@dataclass(frozen=True)
class Coefficients:
    """The solution: φ-coefficients (p, outputs), residual variance (outputs,), freedom, factor.

    ``factor`` is the lower Cholesky factor of the Gram matrix, or None after conjugate gradients.
    """

    values: Array
    variance: Array
    freedom: float
    factor: Array | None


def gram_bytes(terms: int) -> int:
    """Return the memory of the blocked normal equations: Gram matrix, factor and one block."""
    return 8 * terms * (2 * terms + _GRAM_ROWS)


def normal_equations(design: Design) -> tuple[Array, Array]:
    """Return the Gram matrix (p, p; lower half) and Φᵀ W Y (p, outputs)."""
    sample, count = design.sample, len(design.terms)
    gram = np.zeros((count, count), order="F")
    right = np.zeros((count, sample.Y.shape[1]))
    for start in range(0, len(sample.X), _GRAM_ROWS):
        rows = slice(start, start + _GRAM_ROWS)
        root = np.sqrt(sample.weight[rows])
        features = design.rows(rows) * root
        gram = dsyrk(1.0, features.T, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
        right += features @ (sample.Y[rows] * root[:, None])
    return gram, right


def solve(terms: Terms, sample: Sample, gram: Array, right: Array) -> Coefficients:
    """Solve the normal equations, with one round of refinement on the data themselves."""
    factor, place = cholesky(gram)
    if place is not None:
        raise InputError(_undetermined(terms, sample, place))
    values = _solve(factor, right)
    left = residuals(terms, sample, values)
    values += _solve(factor, inner_products(terms, sample, left))
    return _result(terms, sample, values, factor)


def conjugate_gradients(terms: Terms, sample: Sample) -> Coefficients:
    """Solve without forming the Gram matrix: two matrix-free products per step."""
    if sample.size < len(terms):
        raise InputError(_undetermined(terms, sample, int(sample.size)))
    values = np.zeros((len(terms), sample.Y.shape[1]))
    residual = inner_products(terms, sample, sample.Y)
    start = np.linalg.norm(residual, axis=0)
    direction, square = residual.copy(), np.square(residual).sum(axis=0)
    for _ in range(_CG_STEPS):
        if (np.sqrt(square) <= _CG_TOLERANCE * start).all():
            return _result(terms, sample, values, None)
        image = gram_times(terms, sample, direction)
        curvature = (direction * image).sum(axis=0)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        values += step * direction
        residual -= step * image
        before, square = square, np.square(residual).sum(axis=0)
        ratio = np.divide(square, before, out=np.zeros_like(square), where=before > 0)
        direction = residual + ratio * direction
    raise InputError(
        f"the data hardly determine the {len(terms):,} coefficients: conjugate gradients did not "
        f"settle in {_CG_STEPS} steps. Lower degree=, drop columns that nearly repeat others, or "
        "use solver='sparse'"
    )


def cholesky(gram: Array) -> tuple[Array, int | None]:
    """Return the lower Cholesky factor, and the place of the first undetermined term if any."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    share = np.square(factor.diagonal()) / np.maximum(gram.diagonal(), 1e-300)
    weak = np.flatnonzero(share < _UNDETERMINED)
    places = [info - 1] * (info > 0) + weak[:1].tolist()
    return factor, min(places) if places else None


def _solve(factor: Array, right: Array) -> Array:
    half = solve_triangular(factor, right, lower=True)
    return np.asarray(solve_triangular(factor, half, lower=True, trans="T"))


def _result(terms: Terms, sample: Sample, values: Array, factor: Array | None) -> Coefficients:
    freedom = sample.size - len(terms)
    square = sample.weight @ residuals(terms, sample, values) ** 2
    variance: NDArray[np.float64] = (
        square / freedom if freedom > 0 else np.full_like(square, np.nan)
    )
    return Coefficients(values, variance, freedom, factor)


def _undetermined(terms: Terms, sample: Sample, place: int) -> str:
    rows = int(np.count_nonzero(sample.weight))
    if rows < len(terms):
        return (
            f"{rows:,} rows cannot determine {len(terms):,} coefficients (degree {terms.degree} "
            f"in {terms.columns.count} columns). Lower degree=, or use solver='sparse' or "
            "degree='auto'"
        )
    alpha = terms.exponents(place)
    name = " ".join(f"column {j}^{k}" for j, k in enumerate(alpha) if k) or "the constant"
    return (
        f"on these data the term {name} is a combination of other terms, so its coefficient is not "
        "determined. Lower degree=, drop columns that are functions of others, or use "
        "solver='sparse', which keeps the terms it needs"
    )
