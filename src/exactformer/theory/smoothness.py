"""How well a function is met by straight pieces: the feed-forward class of the constructed models.

A ReLU network that interpolates g linearly between equidistant knots, a distance h apart, has

    sup|g − ĝ| ≤ L·h/2      if |g(x) − g(y)| ≤ L |x − y|      (β = 1),
    sup|g − ĝ| ≤ M·h²/8     if |g''| ≤ M                      (β = 2),

for numbers and, in the Euclidean norm, for vectors: at x = (1 − λ)a + λb between the knots a and b the
error is a mean of g(x) − g(a) and g(x) − g(b), at most 2λ(1 − λ)hL; and it is ∫ G(x, ·) g'' with
Green's function G ≤ 0 of [a, b], whose integral is −λ(1 − λ)h²/2. With m_FF pieces shared by J
intervals of length ℓ, h = ℓJ/m_FF, and assumption (13) of Jiang and Li holds with

    C_FF^(1)(g) = L·ℓJ/2,      C_FF^(2)(g) = M·(ℓJ)²/8.

L and M are read off divided differences on a fine grid. They are numerical: to each is added what
halving the grid changed. A second difference that grows as the grid is refined means a kink, and M = ∞.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import reals
from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError
from exactformer.theory.quadrature import Intervals

Array = NDArray[np.float64]

GRID = 4096
"""Cells of the grid on all intervals together."""
KINK = 1.5
"""Growth of the second difference, when the grid is refined once, that tells a kink from a curve."""


@dataclass(frozen=True)
class Smoothness:
    """What is known of g on its intervals; norms are Euclidean where g is a vector."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    """The range of every component, on the grid."""
    slack: float
    """What g may do between two points of the grid."""
    largest: float
    """sup‖g‖."""
    lipschitz: float
    """L, within each interval."""
    curvature: float
    """M = sup‖g''‖; infinite if g has a kink."""
    extent: float
    """ℓJ, the length of all intervals together, each counted as long as the longest."""

    @property
    def radius(self) -> float:
        """Half the diagonal of the box of values: the distance of g from its centre."""
        return float(np.linalg.norm(np.subtract(self.high, self.low))) / 2 + self.slack

    def complexity(self, beta: int) -> float:
        """Return C_FF^(β)(g), so that sup‖g − ĝ‖ ≤ C_FF / m_FF^β."""
        if beta == 1:
            return self.lipschitz * self.extent / 2
        if beta == 2:
            return self.curvature * self.extent**2 / 8
        raise InputError(f"straight pieces converge with β = 1 or 2, not {beta}")

    def error(self, pieces: int) -> float:
        """Return the better of both bounds on sup‖g − ĝ‖ for ``pieces`` in all."""
        return min(self.complexity(1) / pieces, self.complexity(2) / pieces**2)


def smoothness(
    g: Callable[[Any], Any], intervals: Intervals, rounding: float | None = None
) -> Smoothness:
    """Measure a function (n,) → (n,) or (n, r) whose values are known to ``rounding``."""
    return _joined([_measured(values, h, rounding) for values, h in _on_grids(g, intervals)])


def components(g: Callable[[Any], Any], intervals: Intervals, rounding: Array) -> list[Smoothness]:
    """Measure every component of a function (n,) → (n, r), each with its own rounding."""
    grids = list(_on_grids(g, intervals))
    return [
        _joined([_measured(values[:, k : k + 1], h, float(rounding[k])) for values, h in grids])
        for k in range(len(rounding))
    ]


def _on_grids(g: Callable[[Any], Any], intervals: Intervals) -> Iterator[tuple[Array, float]]:
    """Yield the values of g on every interval's grid, (cells + 1, r), and the size of a cell."""
    cells = max(16, GRID // len(intervals) // 2 * 2)
    for low, high in intervals:
        yield _checked(g, np.linspace(low, high, cells + 1)), (high - low) / cells


def _measured(values: Array, h: float, rounding: float | None) -> Smoothness:
    size = float(np.linalg.norm(values, axis=1).max())
    slope, coarse_slope = (_difference(values[::s], 1) / (s * h) for s in (1, 2))
    bend, coarse_bend = (_difference(values[::s], 2) / (s * h) ** 2 for s in (1, 2))
    noise = 16 * (float(np.finfo(np.float64).eps) * size if rounding is None else rounding) / h**2
    lipschitz = slope + abs(slope - coarse_slope)
    kinked = bend > KINK * coarse_bend + noise
    curvature = inf if kinked else bend + abs(bend - coarse_bend)
    slack = min(lipschitz * h / 2, curvature * h**2 / 8)
    return Smoothness(
        low=tuple(values.min(axis=0).tolist()),
        high=tuple(values.max(axis=0).tolist()),
        slack=slack,
        largest=size + slack,
        lipschitz=lipschitz,
        curvature=curvature,
        extent=h * (len(values) - 1),
    )


def _joined(parts: list[Smoothness]) -> Smoothness:
    return Smoothness(
        low=tuple(np.min([part.low for part in parts], axis=0).tolist()),
        high=tuple(np.max([part.high for part in parts], axis=0).tolist()),
        slack=max(part.slack for part in parts),
        largest=max(part.largest for part in parts),
        lipschitz=max(part.lipschitz for part in parts),
        curvature=max(part.curvature for part in parts),
        extent=max(part.extent for part in parts) * len(parts),
    )


def _checked(g: Callable[[Any], Any], grid: Array) -> Array:
    values = reals(g(grid.copy()), "a function of tokens")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != len(grid):
        raise InputError(f"a function of {grid.shape} points gave values {values.shape}")
    if not np.isfinite(values).all():
        worst = np.argwhere(~np.isfinite(values))[0][0]
        raise InputError(f"a function is not finite at {grid[worst]:g}")
    check_pointwise(values, lambda k: g(grid[k : k + 1].copy()), "a function of tokens")
    return values


def _difference(values: Array, order: int) -> float:
    return float(np.linalg.norm(np.diff(values, order, axis=0), axis=1).max(initial=0.0))
