"""Standard errors that hold when the rows have noise of different size (HC3).

A coefficient is a weighted sum of the targets, m_j = Σ_i u_ij w_i y_i, so whatever the variance of
each row its own is Σ_i u_ij² w_i e_i², where e_i = r_i / (1 − h_i) is the residual of row i had it
been left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample, weighted_median
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit

_FULL_LEVERAGE = 1e-8
# A fit collapses if the median residual grows by this factor.
_GROWTH = 1.1


@dataclass(frozen=True)
class RobustErrors:
    """Standard errors of models within a closure, from its features φ.

    ``products`` has the φ-coefficients of powers of x, in the arithmetic of the elimination.
    """

    sample: Sample
    y: Array
    phi: Array
    products: NDArray[Any]
    known: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def errors(self, left: ReducedFit, freedom: float) -> Array:
        """Return for each remaining coefficient the larger of classical and HC3 standard error."""
        if freedom <= 0:
            return np.full(len(left.kept), np.nan)
        if (kept := tuple(left.kept)) not in self.known:
            classical = left.square / freedom * left.inverse.diagonal().astype(np.float64)
            model = in_products(self.products, left)
            left_out = left_out_residuals(self.phi, self.y, model.coefficients, model.projection)
            robust = (self.sample.weight * left_out**2) @ np.square(self.phi @ model.influence)
            self.known[kept] = np.asarray(np.sqrt(np.maximum(classical, robust)))
        return self.known[kept]

    def left_out(self, left: ReducedFit, rows: slice = slice(None)) -> Array:
        """Return the residual of each row, had it been left out of this fit."""
        model = in_products(self.products, left)
        return left_out_residuals(
            self.phi[rows], self.y[rows], model.coefficients, model.projection
        )

    def prefer(self, larger: Array, smaller: Array, level: float) -> bool:
        """Whether the rows object to the smaller of two fits, given by leave-one-out residuals.

        Significantly more than half of them must be nearer to the larger fit, and the median |r| must
        grow. This is a sign test: no row counts more than another, whatever its leverage and the size
        of its noise. Rows without noise share the error of the fit, so their signs alone prove little.
        """
        weight, size = self.sample.weight, self.sample.size
        nearer = float(weight @ (np.abs(smaller) > np.abs(larger)))
        if not most_rows(nearer, size, level):
            return False
        return collapses(*(weighted_median(np.abs(r), weight) for r in (larger, smaller)))


@dataclass(frozen=True)
class InProducts:
    """A fit to some powers of x, in the products φ of their closure.

    With B the φ-coefficients of the powers, m those of the fit and H = (XᵀX)⁻¹: the ``coefficients``
    B m, the ``influence`` B H of a row's features on m, and the ``projection`` B H Bᵀ of leverages.
    """

    left: ReducedFit
    basis: NDArray[Any]

    @property
    def coefficients(self) -> Array:
        """B m, (k,)."""
        return np.asarray((self.basis @ self.left.values).astype(np.float64))

    @cached_property
    def _influence(self) -> NDArray[Any]:
        return np.asarray(self.basis @ self.left.inverse)

    @property
    def influence(self) -> Array:
        """B H, (k, m)."""
        return np.asarray(self._influence.astype(np.float64))

    @property
    def projection(self) -> Array:
        """B H Bᵀ, (k, k)."""
        return np.asarray((self._influence @ self.basis.T).astype(np.float64))


def in_products(products: NDArray[Any], left: ReducedFit) -> InProducts:
    """Return what remains of a fit, in the products of the closure."""
    return InProducts(left, products[:, left.kept])


def left_out_residuals(phi: Array, y: Array, coefficients: Array, projection: Array) -> Array:
    """Return r_i / (1 − h_i) for rows φ of a fit with leverages h = φᵀ P φ."""
    leverage = np.einsum("ij,ij->i", phi @ projection, phi)
    return np.asarray((y - phi @ coefficients) / np.maximum(1 - leverage, _FULL_LEVERAGE))


def most_rows(count: float, size: float, level: float) -> bool:
    """Whether so many rows of ``size`` are significantly more than half."""
    return bool(count - size / 2 >= -float(ndtri(level)) * np.sqrt(size) / 2)


def collapses(before: float, after: float) -> bool:
    """Whether a fit collapses, judged by its median residual before and after a removal."""
    return after > _GROWTH * before
