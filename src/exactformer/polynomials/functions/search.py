"""The lowest degree that meets a tolerance, found adaptively and checked elsewhere.

The grid is refined until the expansion has a degree q, well inside what the grid resolves, beyond
which its coefficients add up to less than the tolerance. That is a judgement from samples; what is
reported is an error measured on points the expansion has never seen.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from exactformer.core.arrays import Array
from exactformer.polynomials.functions.chebyshev_expansion import Expansion, expand
from exactformer.polynomials.functions.sampled import BoxFunction

MAX_SAMPLES = 2**20
_FINEST = 2**14
_RESOLVED = 0.75
_MORE = 8
_CHECKS = 20_000


@dataclass(frozen=True)
class Found:
    """An expansion with the error measured for it, and whether that meets the tolerance."""

    expansion: Expansion
    degree: int
    error: float
    met: bool
    needed: float | None = None
    """The degree that the decay of the coefficients suggests where the tolerance is not met."""


def search(f: BoxFunction, tolerance: float, largest_degree: int) -> Found:
    """Find the lowest degree, up to a largest one, whose measured error is within the tolerance."""
    check = check_points(f.dimension)
    exact = f(check)

    def error_at(q: int) -> float:
        return float(np.abs(expansion.cut(q)(check) - exact).max())

    m = 4
    while True:
        expansion = expand(f, m)
        tails = expansion.tails()
        degree = int(np.argmax(tails <= tolerance))  # the last tail is zero
        resolved, limit = degree <= _RESOLVED * m, min(largest_degree, m)
        if resolved:
            # What the tail promises is met up to rounding; a few degrees make up for the rest.
            for q in range(degree, min(degree + _MORE, limit) + 1):
                if (error := error_at(q)) <= tolerance:
                    return Found(expansion.cut(q), q, error, True)
        if m >= 4 * largest_degree or m >= _FINEST or (2 * m + 1) ** f.dimension > MAX_SAMPLES:
            break
        m = 2 * m
    error = error_at(limit)
    if error <= tolerance:
        q = bisect_left(range(limit), True, key=lambda q: error_at(q) <= tolerance)
        return Found(expansion.cut(q), q, error_at(q), True)
    needed = float(degree) if resolved else _extrapolated(tails, tolerance)
    return Found(expansion.cut(limit), limit, error, False, needed)


def check_points(dimension: int, count: int = _CHECKS) -> Array:
    """Return points to measure errors at: random ones, corners, and a line along every axis."""
    rng = np.random.default_rng(20_220_207)
    inner = rng.uniform(-1, 1, (count, dimension))
    if dimension == 1:
        return np.concatenate([inner, np.linspace(-1, 1, count + 1)[:, None]])
    corners = np.where(rng.random((1024, dimension)) < 0.5, -1.0, 1.0)
    edge = rng.uniform(-1, 1, (count // 4, dimension))
    place = rng.integers(dimension, size=len(edge))
    edge[np.arange(len(edge)), place] = np.where(rng.random(len(edge)) < 0.5, -1.0, 1.0)
    return np.concatenate([inner, corners, edge])


def _extrapolated(tails: Array, tolerance: float) -> float | None:
    """Return the degree at which the tail of the coefficients, continued, falls to the tolerance.

    Only blocks B(q) = tail(q) − tail(2q) are used, which the end of the grid does not distort. Their
    logarithm is fitted by a straight line in q (smooth functions: the tail is about B) and in log q
    (kinks: a tail C q^−p has blocks C q^−p (1 − 2^−p)); the better fit is continued.
    """
    q = np.arange(max(2, len(tails) // 64), len(tails) // 8)
    blocks = tails[q] - tails[2 * q]
    q, blocks = q[blocks > 0], blocks[blocks > 0]
    if len(q) < 4:
        return None
    fits = []
    for scale in (q.astype(float), np.log(q)):
        slope, constant = np.polyfit(scale, np.log(blocks), 1)
        misfit = float(np.abs(slope * scale + constant - np.log(blocks)).max())
        fits.append((misfit, slope, constant))
    (linear, algebraic), smooth = fits, fits[0][0] < fits[1][0]
    _, slope, constant = linear if smooth else algebraic
    if slope >= 0:
        return None
    if smooth:
        return float((np.log(tolerance) - constant) / slope)
    whole = constant - np.log1p(-(2.0**slope))
    with np.errstate(over="ignore"):
        needed = float(np.exp((np.log(tolerance) - whole) / slope))
    return needed if np.isfinite(needed) else None
