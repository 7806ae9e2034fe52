"""A coupling with the same outputs and smaller singular values: what softmax does not see, taken out.

Softmax weights do not change when a number is added to all scores of a query, so ρ(u, v) and

    ρ(u, v) − c(u),     c(u) = E ρ(u, v) over uniform v,

are the same coupling. Among all c this one is best: it projects ρ(u, ·) on what is orthogonal to
constants, no singular value grows, and ranks may fall: −20(u − v)² has rank 3, centred it has rank 2.
The theorem's C_1 is an infimum over all ways to write H and allows for this; its proof does not use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import as_array, like
from exactformer.couplings.target import Coupling, ProductKernel
from exactformer.theory.quadrature import Rule, gauss_legendre

Floats = NDArray[np.float64]
NODES = 64
"""On every interval. A mean that is a little off is another c, as good for H."""


@dataclass(frozen=True, eq=False)
class CentredKernel:
    """ρ(u, v) − Σ_i w_i ρ(u, v_i)."""

    kernel: Callable[[Any, Any], Any]
    rule: Rule

    def __call__(self, u: Any, v: Any) -> Any:
        """Evaluate elementwise; u and v broadcast."""
        u, v = as_array(u), as_array(v)
        return self.kernel(u, v) - self._mean(u)

    def matrix(self, u: Any, v: Any) -> Any:
        """Return the values at all pairs, (…, a, b); a mean for each u serves them all."""
        u, v = as_array(u), as_array(v)
        return self.kernel(u[..., :, None], v[..., None, :]) - self._mean(u)[..., None]

    def _mean(self, u: Any) -> Any:
        return self.kernel(u[..., None], like(self.rule.nodes, u)) @ like(self.rule.weights, u)


@dataclass(frozen=True, eq=False)
class CentredFeatures:
    """ψ_k(v) − E ψ_k."""

    features: Callable[[Any], Any]
    means: Floats

    def __call__(self, v: Any) -> Any:
        """Evaluate at points (…): (…, r)."""
        values = self.features(v)
        return values - like(self.means, values)


def centred(target: Coupling) -> Coupling:
    """Return the same map of sequences with ρ centred in its second argument."""
    rule = gauss_legendre(target.intervals, NODES)
    weights = rule.weights / rule.weights.sum()
    rho = target.rho
    if isinstance(rho, ProductKernel):
        psi = CentredFeatures(rho.psi, weights @ rho.psi(rule.nodes))
        return target.with_kernel(ProductKernel(rho.sigma, rho.phi, psi))
    return target.with_kernel(CentredKernel(rho, Rule(rule.nodes, weights)))
