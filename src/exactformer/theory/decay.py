"""How singular values fall: σ_k ≈ c·k^(−α), σ_k ≈ c·e^(−γk), or none after the r-th.

The first two are straight lines, in log σ against log k and against k; both have two parameters, so
the difference of Akaike's criterion is n·log of the ratio of their residual sums. Decay is a matter of
the tail: of n values the first n/8 are left out. Singular values are not noise: residuals of neighbours
agree in sign, and n points say less than n independent ones would. With a the correlation of
neighbouring residuals, n (1 − a)/(1 + a), but no less than 4, takes the place of n, in the criterion
and in the confidence interval of the rate, to which is added what the error of the σ_k can do to the
slope.

*Finite rank* is a gap: after the last value that is resolved comes a fall, at least as far as the
resolution, more than three times as deep (in logarithms) as any fall before it, and at least 10⁴.
Within its rank such a kernel can still follow a power law or an exponential: its ``shape``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError

Array = NDArray[np.float64]
Shape = Literal["power", "exponential", "undecided"]

FEWEST = 6
"""Values it takes to tell a power from an exponential."""
DECISIVE = 6.0
"""Difference of Akaike's criterion that decides: a likelihood ratio of e³ ≈ 20."""
STRAIGHT = 0.9
"""Share of the variance of log σ that a line must explain."""
GAP = log(1e4)


@dataclass(frozen=True)
class Line:
    """A law of decay: log σ_k = log(constant) − rate·x_k, x_k = log k (power) or k (exponential)."""

    rate: float
    interval: tuple[float, float]
    """95 % confidence for the rate."""
    constant: float
    residual: float
    """Root mean square residual of log σ."""
    explained: float
    """R², the share of the variance explained."""
    effective: float
    """The number of independent values that the residuals are worth."""


@dataclass(frozen=True)
class Decay:
    """What the singular values say about their decay, and how sure that is."""

    rank: int | None
    """The rank, if the values end in a gap; else None."""
    shape: Shape
    """The law that the values follow (up to the rank)."""
    power: Line | None
    exponential: Line | None
    evidence: float
    """Akaike's criterion of the exponential less that of the power law: > 0 speaks for the power."""
    count: int
    """Values used: those resolved to a tenth of themselves, less the first eighth."""

    @property
    def model(self) -> str:
        """The verdict: ``finite rank``, ``power``, ``exponential`` or ``undecided``."""
        return self.shape if self.rank is None else "finite rank"

    @property
    def alpha(self) -> float:
        """The exponent of the power law, decided or not; nan with fewer than three values."""
        return float("nan") if self.power is None else self.power.rate

    def __str__(self) -> str:
        """Return the verdict and the two laws it was chosen from."""
        head = f"finite rank {self.rank}; decay up to it: {self.shape}" if self.rank else self.shape
        lines = [f"{head} ({self.count} values, ΔAIC = {self.evidence:+.1f} for the power law)"]
        for name, line in ("k^(−α), α", self.power), ("e^(−γk), γ", self.exponential):
            if line is not None:
                low, high = line.interval
                lines.append(
                    f"  {name} = {line.rate:.4g}  [{low:.4g}, {high:.4g}]  R² = {line.explained:.4f}"
                )
        return "\n".join(lines)


def fit_decay(singular_values: Any, error: float = 0.0) -> Decay:
    """Fit both laws to descending singular values, each known to within ``error``.

    Values not above the error count as absent: they are what a gap is seen by.

    >>> fit_decay([k**-1.5 for k in range(1, 40)]).model
    'power'
    >>> fit_decay([1, 0.5, 0.4, 0]).rank
    3
    """
    sigma = reals(singular_values, "singular values")
    if sigma.ndim != 1 or not np.isfinite(sigma).all() or (sigma < 0).any() or not sigma.size:
        raise InputError("a decay is fitted to a list of non-negative finite singular values")
    if (np.diff(sigma) > 0).any():
        raise InputError("singular values must descend")
    floor = max(error, 4 * float(np.finfo(np.float64).eps) * float(sigma[0]))
    present = sigma[sigma > floor]
    rank = _gap(present, floor) if len(present) < len(sigma) else None
    resolved = int((present > 10 * floor).sum())
    order = np.arange(resolved // 8 + 1, resolved + 1, dtype=np.float64)
    used = present[resolved // 8 : resolved]
    if len(used) < 3:
        return Decay(rank, "undecided", None, None, 0.0, len(used))
    power, exponential = _line(np.log(order), used, floor), _line(order, used, floor)
    evidence = _evidence(power, exponential)
    best = power if evidence > 0 else exponential
    decided = len(used) >= FEWEST and abs(evidence) >= DECISIVE and best.explained >= STRAIGHT
    shape: Shape = "undecided"
    if decided:
        shape = "power" if evidence > 0 else "exponential"
    return Decay(rank, shape, power, exponential, evidence, len(used))


def _gap(present: Array, floor: float) -> int | None:
    if not len(present):
        return 0
    falls = -np.diff(np.log(present))
    last = log(present[-1] / floor)
    return len(present) if last > max(GAP, 3 * falls.max(initial=0.0)) else None


def _line(x: Array, sigma: Array, floor: float) -> Line:
    from scipy.stats import t as student

    y, n = np.log(sigma), len(sigma)
    leverage = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slope = float(leverage @ y)
    residuals = y - y.mean() - slope * (x - x.mean())
    square, total = float(residuals @ residuals), float(((y - y.mean()) ** 2).sum())
    effective = _effective(residuals)
    freedom = max(effective - 2, 1.0)
    spread = (square / n * effective / freedom * float(leverage @ leverage) * n / effective) ** 0.5
    half = float(student.ppf(0.975, freedom)) * spread + float(np.abs(leverage) @ (floor / sigma))
    return Line(
        rate=-slope,
        interval=(-slope - half, -slope + half),
        constant=exp(float(y.mean() - slope * x.mean())),
        residual=(square / n) ** 0.5,
        explained=1 - square / total if total else 0.0,
        effective=effective,
    )


def _effective(residuals: Array) -> float:
    n, square = len(residuals), float(residuals @ residuals)
    if square == 0:
        return float(n)
    seen = float(residuals[1:] @ residuals[:-1]) / square
    together = min(max(seen + (2 + 4 * seen) / n, 0.0), 1.0)  # a fitted line takes some of it away
    return min(float(n), max(4.0, n * (1 - together) / (1 + together)))


def _evidence(power: Line, exponential: Line) -> float:
    if power.residual == exponential.residual:
        return 0.0
    if not power.residual or not exponential.residual:
        return inf if exponential.residual else -inf
    worth = min(power.effective, exponential.effective)
    return 2 * worth * log(exponential.residual / power.residual)
