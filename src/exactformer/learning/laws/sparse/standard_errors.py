"""Standard errors that hold when the rows have noise of different size (HC3).

A coefficient is a weighted sum of the targets, m_j = Σ_i u_ij w_i y_i, so whatever the variance of
each row its own is Σ_i u_ij² w_i e_i², where e_i = r_i / (1 − h_i) is the residual of row i had it
been left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample, weighted_median
from exactformer.learning.laws.sparse.backward_elimination import InProducts, ReducedFit

_FULL_LEVERAGE = 1e-8
# A fit collapses if the median residual grows by this factor.
_GROWTH = 1.1


@dataclass(frozen=True)
class Judge:
    """Standard errors of the models within a closure, and what rows left out say of two of them.

    ``phi`` are the features of the closure (N, k), ``known`` has the errors of models by the terms
    they kept.
    """

    sample: Sample
    y: Array
    phi: Array
    known: dict[tuple[int, ...], Array] = field(default_factory=dict, kw_only=True)

    def errors(self, left: ReducedFit, freedom: float) -> Array:
        """Return for each remaining coefficient the larger of classical and HC3 standard error."""
        if freedom <= 0:
            return np.full(len(left.kept), np.nan)
        if (kept := tuple(left.kept)) not in self.known:
            classical = left.square / freedom * left.inverse.diagonal().astype(np.float64)
            robust = self._variances(left)
            self.known[kept] = np.asarray(np.sqrt(np.maximum(classical, robust)))
        return self.known[kept]

    def prefer(self, larger: Array, smaller: Array, level: float) -> bool:
        """Whether the rows object to the smaller of two fits, each given by :meth:`left_out`.

        Significantly more than half of them must be nearer to the larger fit, and the median |r| must
        grow. This is a sign test: no row counts more than another, whatever its leverage and the size
        of its noise. Rows without noise share the error of the fit, so their signs alone prove little.
        """
        more_than_half = self._nearer(larger, smaller) - self.sample.size / 2
        if more_than_half < -float(ndtri(level)) * np.sqrt(self.sample.size) / 2:
            return False
        before, after = self._medians(larger, smaller)
        return after > _GROWTH * before

    def left_out(self, left: ReducedFit, rows: slice = slice(None)) -> Array:
        """Return the residual of each row, had it been left out of this fit."""
        model = in_products(left)
        return left_out_residuals(
            self.phi[rows], self.y[rows], model.coefficients, model.projection
        )

    def _variances(self, left: ReducedFit) -> Array:
        influence = self.phi @ in_products(left).influence.astype(np.float64)
        return np.asarray((self.sample.weight * self.left_out(left) ** 2) @ influence**2)

    def _nearer(self, larger: Array, smaller: Array) -> float:
        return float(self.sample.weight @ (np.abs(smaller) > np.abs(larger)))

    def _medians(self, larger: Array, smaller: Array) -> list[float]:
        return [weighted_median(np.abs(r), self.sample.weight) for r in (larger, smaller)]


def in_products(left: ReducedFit) -> InProducts:
    """Return what remains of a fit, in the products of the closure."""
    assert left.in_products is not None  # those that are tested have it
    return left.in_products


def left_out_residuals(phi: Array, y: Array, coefficients: Array, projection: Array) -> Array:
    """Return r_i / (1 − h_i) for rows φ of a fit with leverages h = φᵀ P φ."""
    leverage = np.einsum("ij,ij->i", phi @ projection, phi)
    return np.asarray((y - phi @ coefficients) / np.maximum(1 - leverage, _FULL_LEVERAGE))
