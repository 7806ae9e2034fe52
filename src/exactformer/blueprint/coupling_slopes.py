"""How steep a piecewise-linear function is, exactly: read off its values at neighbouring knots.

Steps between huge values overflow to infinity, or to what is not a number; no bound accepts the latter.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from exactformer.blueprint.coupling_interpolant import Floats, Interpolant
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant


@np.errstate(over="ignore", invalid="ignore")
def largest_steps(function: Interpolant | KuhnInterpolant) -> Floats:
    """Return the largest change from a knot to the next on the same interval, (n,)."""
    return np.asarray(np.max([np.abs(step).max(axis=0) for step in _steps(function)], axis=0))


@np.errstate(over="ignore", invalid="ignore")
def lipschitz(function: Interpolant | KuhnInterpolant) -> float:
    """Return L with |F̂(x) − F̂(y)| ≤ L max_i |x_i − y_i| on the box: the largest gradient's ‖·‖₁."""
    if isinstance(function, Interpolant):
        low, high = function.knots.intervals[0]
        return float(largest_steps(function).max()) * function.knots.pieces / float(high - low)
    d, side = len(function.box), function.pieces + 1
    grid = function.values.reshape(*[side] * d, -1)
    spacing = [float(high - low) / function.pieces for low, high in function.box]
    corners = np.stack(np.meshgrid(*[np.arange(side - 1)] * d, indexing="ij"), axis=-1)
    largest = 0.0
    for order in permutations(range(d)):
        place, total = corners, np.zeros((*corners.shape[:-1], grid.shape[-1]))
        for axis in order:
            after = place + np.eye(d, dtype=np.int64)[axis]
            total += np.abs(_at(grid, after) - _at(grid, place)) / spacing[axis]
            place = after
        largest = float(np.maximum(largest, total.max()))  # which keeps what is not a number
    return largest


def _steps(function: Interpolant | KuhnInterpolant) -> list[Floats]:
    if isinstance(function, Interpolant):
        shape = (len(function.knots.intervals), function.knots.pieces + 1, -1)
        return [np.diff(function.values.reshape(shape), axis=1).reshape(-1, function.outputs)]
    grid = function.values.reshape(*[function.pieces + 1] * len(function.box), -1)
    axes = range(len(function.box))
    return [np.diff(grid, axis=axis).reshape(-1, function.outputs) for axis in axes]


def _at(grid: Floats, places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Floats:
    return np.asarray(grid[tuple(np.moveaxis(places, -1, 0))])
