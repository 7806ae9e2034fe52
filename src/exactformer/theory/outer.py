"""F on the values of f: its Lipschitz constant and how well the constructed models meet it.

A softmax mean of values of f lies in the box of their components. Of one variable F is met by
straight pieces like any function. Of n' > 1 variables it is interpolated on the simplices of a grid of
about m_FF knots: exactly if F is affine, else within K_F times the diagonal of a cell (β = 1/n').
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError
from exactformer.theory.smoothness import Smoothness, smoothness

Array = NDArray[np.float64]

PROBES = 4096


@dataclass(frozen=True)
class Outer:
    """What is known of F on the box of values of f."""

    lipschitz: float
    """K_F, in the Euclidean norm."""
    variables: int
    diagonal: float
    """That of the box."""
    one: Smoothness | None
    """F as a function of one variable, if that is what it is and f is not constant."""
    affine: bool

    def complexity(self, beta: int) -> float:
        """Return C_FF^(β)(F); infinite where n' > 1 variables allow no such rate."""
        if self.one is not None:
            return self.one.complexity(beta)
        return 0.0 if self.affine else inf

    def error(self, pieces: int) -> float:
        """Return the bound on sup|F − F̂| for a budget of ``pieces``."""
        if self.one is not None:
            return self.one.error(pieces)
        each = max(1, int(round(pieces ** (1 / self.variables), 9)) - 1)
        return 0.0 if self.affine else self.lipschitz * self.diagonal / each


def outer_function(F: Callable[[Any], Any], inner: Smoothness) -> Outer:
    """Measure F on the range of f."""
    low, high = np.asarray(inner.low), np.asarray(inner.high)
    diagonal = float(np.linalg.norm(high - low))
    if len(low) > 1:
        lipschitz, affine = _several(F, low, high)
        return Outer(lipschitz, len(low), diagonal, None, affine)
    if diagonal == 0:
        return Outer(0.0, 1, 0.0, None, affine=True)
    one = smoothness(F, ((inner.low[0], inner.high[0]),))
    return Outer(one.lipschitz, 1, diagonal, one, affine=False)


def _several(F: Callable[[Any], Any], low: Array, high: Array) -> tuple[float, bool]:
    """Return K_F from difference quotients at scattered points, and whether F is affine."""
    random = np.random.default_rng(0)
    a, b = random.uniform(low, high, (2, PROBES, len(low)))
    ends, middles = np.asarray([F(a.copy()), F(b.copy())]), np.asarray(F((a + b) / 2))
    if ends.shape != (2, PROBES) or not np.isfinite(ends).all():
        raise InputError(f"F takes (…, {len(low)}) to (…): it gave {ends.shape[1:]}")
    check_pointwise(ends[0], lambda k: F(a[k : k + 1].copy()), "F")
    scale = float(np.abs(ends).max()) + float(np.finfo(np.float64).tiny)
    affine = bool(np.abs(ends.mean(axis=0) - middles).max() <= 1e-12 * scale)
    step = 1e-5 * (high - low)
    inside = low + step + (high - low - 2 * step) * (a - low) / np.where(high > low, high - low, 1)
    slopes = [
        (np.asarray(F(inside + e)) - np.asarray(F(inside - e))) / (2 * e.sum())
        for e in np.diag(step)
        if e.any()
    ]
    steepness = np.linalg.norm(slopes, axis=0) if slopes else np.zeros(PROBES)
    largest = float(steepness.max())
    return 2 * largest - float(steepness[: PROBES // 2].max()), affine
