"""A second look at a decomposition, at points that its quadrature has not seen.

Values can settle too early: a bump that falls between the nodes of three rules in a row is invisible to
all of them. ρ is therefore compared with its own decomposition at random points, one in each of 512
equal parts of either domain; no bump wider than two parts can hide from them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exactformer.theory.decomposition import Decomposition, evaluate
from exactformer.theory.quadrature import Intervals

Array = NDArray[np.float64]

PARTS = 512


def unseen(found: Decomposition, left: Intervals, right: Intervals) -> float:
    """Return the L² norm of what a decomposition misses at fresh points; 0 if its error explains it."""
    assert found.kernel is not None
    random = np.random.default_rng(0)
    u, v = (_scattered(part, random) for part in (left, right))
    missed = evaluate(found.kernel, u, v) - found.matrix(u, v)
    mass = float(found.u.weights.sum() * found.v.weights.sum())
    norm = float(np.sqrt(mass * (missed**2).mean()))
    return norm if norm > 3 * found.remainder + 10 * (found.rank + 1) * found.error else 0.0


def _scattered(intervals: Intervals, random: np.random.Generator) -> Array:
    lengths = np.array([high - low for low, high in intervals])
    along = (np.arange(PARTS) + random.uniform(size=PARTS)) / PARTS * lengths.sum()
    starts = np.concatenate([[0.0], np.cumsum(lengths)])
    place = np.clip(np.searchsorted(starts, along, side="right") - 1, 0, len(lengths) - 1)
    lows: Array = np.array([low for low, _ in intervals])
    return np.asarray(lows[place] + along - starts[place])
