"""Standard errors that hold when the rows have noise of different size (HC3).

A coefficient is a weighted sum of the targets, m_j = Σ_i u_ij w_i y_i, so whatever the variance of
each row its own is Σ_i u_ij² w_i e_i², where e_i = r_i / (1 − h_i) is the residual of row i had it
been left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit
from exactformer.learning.laws.sparse.forward_search import Fit

_FULL_LEVERAGE = 1e-8


@dataclass(frozen=True)
class RobustErrors:
    """Standard errors of models within a closure, from its features φ, fit and bases.

    ``powers`` and ``products`` change φ-coefficients to those of powers of x and back, in the
    arithmetic of the elimination.
    """

    sample: Sample
    y: Array
    phi: Array
    fit: Fit
    powers: NDArray[Any]
    products: NDArray[Any]

    def errors(self, left: ReducedFit, freedom: float) -> Array:
        """Return for each remaining coefficient the larger of classical and HC3 standard error."""
        if freedom <= 0:
            return np.full(len(left.kept), np.nan)
        classical = left.square / freedom * left.inverse.diagonal().astype(np.float64)
        to_coefficients = left.transfer @ self.powers
        onto = (self.products[:, left.kept] @ to_coefficients).astype(np.float64)
        residual = self.y - self.phi @ (onto @ self.fit.coefficients)
        leverage = np.einsum("ij,ij->i", self.phi @ (onto @ self.fit.inverse), self.phi)
        left_out = residual / np.maximum(1 - leverage, _FULL_LEVERAGE)
        influence = self.phi @ (self.fit.inverse @ to_coefficients.astype(np.float64).T)
        robust = (self.sample.weight * left_out**2) @ influence**2
        return np.asarray(np.sqrt(np.maximum(classical, robust)))
