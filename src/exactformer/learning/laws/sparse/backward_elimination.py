"""Backward elimination: remove the least significant coefficient until all are significant.

With coefficients m and H = (XᵀX)⁻¹, removing coefficient j costs m_j²/H_jj in residual square and
updates both in closed form,

    m ← m − H_j m_j/H_jj,        H ← H − H_j H_jᵀ/H_jj.

What the rows see of the model changes likewise: its values, leverages and influences are those of the
products φ that the powers of x are made of, in which nothing cancels.

Far from the origin powers of x are all but parallel and these differences cancel; the same lines
then run in decimal arithmetic of as many digits as that costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


@dataclass(frozen=True)
class Threshold:
    """The significance that a coefficient must reach to stay.

    ``level`` is its largest p-value, ``size`` the number of observations, ``rounding`` the smallest
    ‖contribution‖ that is more than rounding.
    """

    level: float
    size: float
    rounding: float

    def statistic(
        self, gain: NDArray[np.float64], square: float, freedom: float
    ) -> NDArray[np.float64]:
        """Return |t| from the reduction ``gain`` of ‖r‖; zero for what rounding could explain."""
        scale = np.sqrt(max(square / freedom, np.finfo(float).tiny))
        return np.where(gain > self.rounding, gain / scale, 0.0)

    def critical_value(self, freedom: float) -> float:
        """Return the |t| that is reached by chance with probability ``level``."""
        return float(-stdtrit(freedom, self.level / 2))


@dataclass(frozen=True)
class InProducts:
    """A fit to some powers of x, in the products φ of their closure.

    With B the φ-coefficients of the powers, m those of the fit and H = (XᵀX)⁻¹: the ``coefficients``
    B m (k,), the ``influence`` B H (k, m) of a row's features on m, in the arithmetic of the
    elimination, and the ``projection`` B H Bᵀ (k, k) of leverages.
    """

    coefficients: NDArray[np.float64]
    influence: NDArray[Any]
    projection: NDArray[np.float64]


@dataclass(frozen=True)
class ReducedFit:
    """What is left of a fit: places of the coefficients, their values, (XᵀX)⁻¹ and ‖r‖².

    The fit in products is kept up to date where it is known.
    """

    kept: list[int]
    values: NDArray[Any]
    inverse: NDArray[Any]
    square: float
    in_products: InProducts | None = None

    @classmethod
    def all(cls, values: NDArray[Any], inverse: NDArray[Any], square: float) -> ReducedFit:
        """Return the state before any removal."""
        return cls(list(range(len(values))), values, inverse, square)

    @property
    def gains(self) -> NDArray[np.float64]:
        """The root of how much ‖r‖² would grow with each coefficient's removal."""
        gained = self.values * self.values / self.inverse.diagonal()
        return np.asarray(np.sqrt(np.maximum(gained.astype(np.float64), 0.0)))

    def without(self, j: int) -> ReducedFit:
        """Remove the coefficient at place ``j`` of those that remain."""
        rest = [i for i in range(len(self.kept)) if i != j]
        value, row = self.values[j], self.inverse[j, rest]
        step = self.inverse[rest, j] / self.inverse[j, j]
        model = self.in_products
        if model is not None:
            own, share = model.influence[:, j], model.influence[:, j] / self.inverse[j, j]
            model = InProducts(
                model.coefficients - (share * value).astype(np.float64),
                model.influence[:, rest] - np.multiply.outer(own, step),
                model.projection - np.outer(own.astype(np.float64), share.astype(np.float64)),
            )
        # The variance of a dependent term may have rounded below zero, as for ``gains``.
        gained = float(np.sqrt(max(float(value * value / self.inverse[j, j]), 0.0)))
        return ReducedFit(
            [self.kept[i] for i in rest],
            self.values[rest] - step * value,
            self.inverse[rest][:, rest] - np.multiply.outer(step, row),
            self.square + gained**2,
            model,
        )

    def placed(self, products: NDArray[Any]) -> ReducedFit:
        """Return the same with the fit in products, given the φ-coefficients of all powers."""
        basis = products[:, self.kept]
        influence = sparse_product(basis, self.inverse)
        projection = sparse_product(basis, influence.T).astype(np.float64)
        model = InProducts((basis @ self.values).astype(np.float64), influence, projection)
        return replace(self, in_products=model)


def sparse_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return their product; most of a change of basis is zero, which matters for Decimals."""
    if left.dtype != object:
        return np.asarray(left @ right)
    there = (np.flatnonzero(row) for row in left)
    return np.array([row[j] @ right[j] for row, j in zip(left, there, strict=True)])


def eliminate(left: ReducedFit, threshold: Threshold, protect: int | None = None) -> ReducedFit:
    """Remove coefficients one by one until each is above the threshold, sparing ``protect``."""
    while left.kept:
        freedom = threshold.size - len(left.kept)
        statistic = (
            threshold.statistic(left.gains, left.square, freedom) if freedom > 0 else left.gains
        )
        if protect in left.kept:
            statistic[left.kept.index(protect)] = np.inf
        j = int(np.argmin(statistic))
        if statistic[j] >= (threshold.critical_value(freedom) if freedom > 0 else np.inf):
            break
        left = left.without(j)
    return left
