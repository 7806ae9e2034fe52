"""Backward elimination: remove the least significant coefficient until all are significant.

With coefficients m and H = (XᵀX)⁻¹, removing coefficient j costs m_j²/H_jj in residual square and
updates both in closed form,

    m ← m − H_j m_j/H_jj,        H ← H − H_j H_jᵀ/H_jj.

Far from the origin powers of x are all but parallel and these differences cancel; the same lines
then run in decimal arithmetic of eighty digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


@dataclass(frozen=True)
class Bar:
    """What a coefficient must reach to stay.

    ``level`` is its largest p-value, ``size`` the number of observations, ``rounding`` the smallest
    ‖contribution‖ that can be told from rounding.
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

    def threshold(self, freedom: float) -> float:
        """Return the |t| that is reached by chance with probability ``level``."""
        return float(-stdtrit(freedom, self.level / 2))


@dataclass(frozen=True)
class Remaining:
    """The survivors: their places, coefficients, (XᵀX)⁻¹ and the residual square ‖r‖²."""

    kept: list[int]
    values: NDArray[Any]
    inverse: NDArray[Any]
    square: float


def eliminate(
    values: NDArray[Any], inverse: NDArray[Any], square: float, bar: Bar, protect: int | None = None
) -> Remaining:
    """Remove coefficients one by one until each is above the bar, sparing ``protect``."""
    kept = list(range(len(values)))
    while kept:
        freedom = bar.size - len(kept)
        gains = np.sqrt((values * values / inverse.diagonal()).astype(np.float64))
        statistic = bar.statistic(gains, square, freedom) if freedom > 0 else gains
        if protect in kept:
            statistic[kept.index(protect)] = np.inf
        j = int(np.argmin(statistic))
        if statistic[j] >= (bar.threshold(freedom) if freedom > 0 else np.inf):
            break
        step = inverse[:, j] / inverse[j, j]
        rest = np.arange(len(kept)) != j
        square += float(gains[j]) ** 2
        values = (values - step * values[j])[rest]
        inverse = (inverse - np.multiply.outer(step, inverse[j]))[np.ix_(rest, rest)]
        del kept[j]
    return Remaining(kept, values, inverse, square)
