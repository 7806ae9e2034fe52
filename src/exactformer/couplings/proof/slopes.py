"""How steep a piecewise-linear function is: read off its values at neighbouring knots, rounded up.

Steps between huge values overflow to infinity, or to what is not a number; no bound accepts the latter.
"""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np

from exactformer.core.upper import Upper
from exactformer.couplings.interpolant import Floats, Interpolant
from exactformer.couplings.kuhn import KuhnInterpolant


def largest_steps(function: Interpolant | KuhnInterpolant) -> Upper:
    """Return the largest change from a knot to the next on the same interval, (n,)."""
    if isinstance(function, Interpolant):
        shape = len(function.knots.intervals), function.knots.pieces + 1, function.outputs
        parts = [_steps(function.values.reshape(shape), 1)]
    else:
        parts = [_steps(_grid(function), axis) for axis in range(len(function.box))]
    return Upper(np.vstack([part.values.reshape(-1, function.outputs) for part in parts])).max(0)


def largest_slopes(function: Interpolant) -> Upper:
    """Return the largest slope between neighbouring knots, be they of two intervals, (n,)."""
    knots = function.knots.exact
    order = sorted(range(len(knots)), key=knots.__getitem__)
    inverse = Upper.stack(Upper.of(1 / (knots[k] - knots[j])) for j, k in pairwise(order))
    return (_steps(function.values[order], 0) * inverse[:, None]).max(axis=0)


def lipschitz(function: Interpolant | KuhnInterpolant) -> float:
    """Return L with |F̂(x) − F̂(y)| ≤ L max_i |x_i − y_i| on the box: the largest gradient's ‖·‖₁."""
    if isinstance(function, Interpolant):
        low, high = function.knots.intervals[0]
        return float(largest_steps(function).max() * Upper.of(function.knots.pieces / (high - low)))
    inverse = [Upper.of(function.pieces / (high - low)) for low, high in function.box]
    slopes = [_steps(_grid(function), axis) * each for axis, each in enumerate(inverse)]
    largest = Upper(0.0)
    for order in permutations(range(len(slopes))):
        total, place = Upper(0.0), [slice(None, -1)] * len(slopes)  # the lower corner of every cell
        for axis in order:
            place[axis] = slice(None)  # of steps along an axis there is one for each cell
            total = total + slopes[axis][tuple(place)]
            place[axis] = slice(1, None)
        largest = largest.or_above(total.max())  # which keeps what is not a number
    return float(largest)


def _grid(function: KuhnInterpolant) -> Floats:
    return function.values.reshape(*[function.pieces + 1] * len(function.box), -1)


@np.errstate(over="ignore", invalid="ignore")
def _steps(values: Floats, axis: int) -> Upper:
    """Return bounds of |differences| along an axis, zero for equal values only.

    These are told apart by their bits: a difference, or the values, may be taken for zero.
    """
    bits = np.ascontiguousarray(values).view(np.int64)
    differ = np.diff(np.where(bits == np.iinfo(np.int64).min, 0, bits), axis=axis) != 0  # −0 is 0
    apart = Upper(np.abs(np.diff(values, axis=axis))) * 1.0
    return apart.or_above(np.finfo(np.float64).tiny).where(differ)
