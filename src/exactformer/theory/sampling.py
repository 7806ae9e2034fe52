"""Decomposition of a kernel on boxes of any dimension, by points instead of quadrature.

n scrambled Sobol points a side are a rule with equal weights: √(w w') ρ(u_i, v_j) has singular values
that converge to those of ρ. Eight independent scramblings show how far chance carries a single one, and
half the points of each how much all of them are off together (that bias falls like 1/n or faster):

    error = max_k ( t · s_k + |mean_k(n) − mean_k(n/2)| ),

with s_k the standard deviation of σ_k between scramblings and t Student's 97.5 % point: a 95 %
statement for every k, not a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.theory.decomposition import Kernel, evaluate
from exactformer.theory.quadrature import Rule, intervals_of

Array = NDArray[np.float64]

SCRAMBLINGS = 8


@dataclass(frozen=True, init=False)
class Box:
    """A product of intervals, where vector tokens live: Box((0, 1), (0, 2)) is [0, 1] × [0, 2]."""

    sides: tuple[tuple[float, float], ...]

    def __init__(self, *sides: tuple[float, float]) -> None:
        if not sides:
            raise InputError("a box needs at least one side, as Box((0, 1), (0, 1))")
        object.__setattr__(self, "sides", tuple(intervals_of(side)[0] for side in sides))

    @property
    def volume(self) -> float:
        """The product of the lengths."""
        return float(np.prod([high - low for low, high in self.sides]))

    def points(self, count: int, seed: int, normal: bool) -> Rule:
        """Return ``count`` (a power of two) scrambled Sobol points with equal weights."""
        from scipy.stats import qmc

        low, high = np.asarray(self.sides).T
        unit = qmc.Sobol(len(self.sides), rng=np.random.default_rng(seed)).random(count)
        weight = (1.0 if normal else self.volume) / count
        return Rule(low + (high - low) * unit, np.full(count, weight))


def sampled_error(rho: Kernel, left: Box, right: Box, points: int, normal: bool) -> float:
    """Return the error (see the module) of the singular values found from ``points`` points a side."""
    from scipy.stats import t as student

    whole, halves = [], []
    for number in range(SCRAMBLINGS):
        u, v = scrambled(left, right, points, normal, number)
        matrix = evaluate(rho, u.nodes, v.nodes) * (u.weights[0] * v.weights[0]) ** 0.5
        whole.append(np.linalg.svd(matrix, compute_uv=False))
        half = points // 2
        halves.append(2 * np.linalg.svd(matrix[:half, :half], compute_uv=False))
    spread = np.std(whole, axis=0, ddof=1) * float(student.ppf(0.975, SCRAMBLINGS - 1))
    bias = np.abs(np.mean(whole, axis=0)[: points // 2] - np.mean(halves, axis=0))
    rounding = 4 * float(np.finfo(np.float64).eps) * points**0.5 * whole[0][0]
    return float((spread[: points // 2] + bias).max() + rounding)


def scrambled(left: Box, right: Box, points: int, normal: bool, number: int) -> tuple[Rule, Rule]:
    """Return the points of one scrambling, those of u and v independent of each other."""
    return (
        left.points(points, seed=2 * number, normal=normal),
        right.points(points, seed=2 * number + 1, normal=normal),
    )
