"""Robust losses: Huber's, by pseudo-values, and trimming, by leaving far rows out.

Huber's estimator solves Σ ψ(r_i) φ(x_i) = 0, where ψ draws residuals beyond c = 1.345 robust standard
deviations s in to c s. At its solution ordinary least squares on

    y*_i = ŷ_i + ψ(r_i) / m,        m the share of rows with |r_i| ≤ c s

has the same coefficients, and its standard errors are those of the estimator for many rows. So any
solver becomes robust by being run on y* again and again. Trimming leaves out the rows beyond 3 s.
Both start from the median. Where a solver that chooses terms does not settle from there, they start
again from its fit to all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dense.solvers import Solved
from exactformer.learning.laws.diagnosis import robust_spread
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample, weighted_median

LOSSES = ("squared", "huber", "trimmed")
_HUBER, _TRIM = 1.345, 3.0
_ROUNDS = 30
_SETTLED = 1e-6
# Where most rows fit exactly, residuals below this share of |y| are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Robust:
    """Laws by a robust loss, and a mask of the rows (N,) that it drew in or left out."""

    solved: Solved
    far: NDArray[np.bool_]
    settled: bool


def solve_robustly(sample: Sample, loss: str, solve: Callable[[Sample], Solved]) -> Robust:
    """Run a solver until the rows that count no longer change."""
    middle = np.zeros_like(sample.Y) + [weighted_median(y, sample.weight) for y in sample.Y.T]
    found = _settle(sample, loss, solve, middle)
    if found.settled:
        return found
    return _settle(sample, loss, solve, _values(solve(sample), sample))


def _settle(sample: Sample, loss: str, solve: Callable[[Sample], Solved], fitted: Array) -> Robust:
    """Run a solver again and again, beginning with these fitted values."""
    rounding = _ROUNDING * np.abs(sample.Y).max(axis=0)
    before: NDArray[np.bool_] | None = None
    for _ in range(_ROUNDS):
        residual = sample.Y - fitted
        spread = np.array([robust_spread(r, sample.weight) for r in residual.T])
        spread = np.maximum(spread, rounding)
        far = (np.abs(residual) > _TRIM * spread).any(axis=1)
        if loss == "trimmed":
            given = sample.part(~far)
        else:
            reach = _HUBER * spread
            drawn = np.clip(residual, -reach, reach)
            within = np.average(np.abs(residual) <= reach, axis=0, weights=sample.weight)
            given = replace(sample, Y=fitted + drawn / within)
        solved = solve(given)
        later = _values(solved, sample)
        change = np.abs(later - fitted).max(axis=0)
        fitted = later
        same = loss == "trimmed" and before is not None and np.array_equal(before, far)
        before = far
        if same or (change <= np.maximum(_SETTLED * spread, rounding)).all():
            return Robust(solved, far, True)
    return Robust(solved, far, False)


def _values(solved: Solved, sample: Sample) -> Array:
    """Return the values of the laws at a sample, one column per output."""
    return np.column_stack([law.inner_values(sample.X) for law in solved.laws])
