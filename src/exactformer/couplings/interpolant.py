"""Feed-forward networks that are known functions: piecewise-linear interpolants as exact ReLU layers.

Between ascending knots t_0 < … < t_K a network with two hidden layers takes the values v_j at t_j, is
linear between, and constant outside:

    v(x) = Σ_j v_j hat_j(x),
    hat_j(x) = relu(1 − relu((x − t_j)/(t_{j+1} − t_j)) − relu((t_j − x)/(t_j − t_{j−1})))

One hidden layer would do, v(x) = v_0 + Σ_j a_j relu(x − t_j), but not in floats: there, small values
are differences of large ones, and the error is the unit roundoff times the *total variation* of the
slope (for √2 sin 12πx 24 times its largest slope). Hats are local: the error is the roundoff times
the slope at x.

Knots are rational; values are finite float64 numbers, hence dyadic rationals, and are meant exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from exactformer.core.matrix import Matrix
from exactformer.errors import InputError, SizeError

Floats = NDArray[np.float64]
Interval = tuple[Fraction, Fraction]

SHORTEST = 2.0**-960
"""The shortest interval: its 2⁶⁰th part is still a normal number, which is never taken for zero."""
MOST_ENTRIES = 4_000_000
"""Entries of a layer's matrix as exact rationals, at about 200 bytes each."""


def check_visible(intervals: Iterable[Interval]) -> None:
    """Raise unless float64 tells the ends of every interval apart, and many points between."""
    for low, high in intervals:
        if high - low < SHORTEST:
            raise InputError(
                f"an interval of length {float(high - low):.3g} is too short: points of it may be "
                f"taken for zero. Use one of {SHORTEST:.3g} at least"
            )
        if not float(low) < float(high):
            raise InputError(
                f"an interval of length {float(high - low):.3g} at {float(low):.6g} is a single number "
                "in float64; functions on it cannot be evaluated. Use a longer one"
            )


@dataclass(frozen=True)
class Affine:
    """z ↦ W z + b; layers of a network have ReLUs between them."""

    weight: Matrix
    bias: Matrix


@dataclass(frozen=True)
class Knots:
    """N + 1 equidistant knots on each of some disjoint intervals, listed interval by interval."""

    intervals: tuple[Interval, ...]
    pieces: int
    """N, on each interval."""

    def __post_init__(self) -> None:
        if self.pieces < 1 or not self.intervals:
            raise InputError("knots need an interval and at least one piece on it")
        ordered = sorted(self.intervals)
        if any(low >= high for low, high in ordered) or any(
            a[1] >= b[0] for a, b in pairwise(ordered)
        ):
            raise InputError("the intervals of a piecewise-linear function must be disjoint")
        check_visible(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals) * (self.pieces + 1)

    @cached_property
    def exact(self) -> tuple[Fraction, ...]:
        """Every knot."""
        n = self.pieces
        return tuple(a + (b - a) * i / n for a, b in self.intervals for i in range(n + 1))

    @cached_property
    def points(self) -> Floats:
        """Every knot, rounded."""
        n = self.pieces
        return np.concatenate(
            [float(a) + float(b - a) / n * np.arange(n + 1) for a, b in self.intervals]
        )

    def refined(self, parts: int) -> Floats:
        """Return points of which ``parts`` lie on every piece, the knots among them."""
        return Knots(self.intervals, self.pieces * parts).points


@dataclass(frozen=True, eq=False)
class Interpolant:
    """n piecewise-linear functions of one number."""

    knots: Knots
    values: Floats
    """(knots, n)."""

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) != len(self.knots):
            raise InputError(
                f"values of the shape {self.values.shape} do not fit {len(self.knots)} knots"
            )
        if not np.isfinite(self.values).all():
            raise InputError("a function is not finite at one of the knots")

    @property
    def outputs(self) -> int:
        """n."""
        return int(self.values.shape[1])

    @property
    def hidden(self) -> tuple[int, int]:
        """Units of the two hidden layers."""
        return 2 * (len(self.knots) - 1), len(self.knots)

    def __call__(self, x: Floats) -> Floats:
        """Evaluate in float64: ``(...)`` to ``(..., n)``."""
        order = np.argsort(self.knots.points)
        knots = self.knots.points[order]
        columns = [np.interp(x, knots, column) for column in self.values[order].T]
        return np.stack(columns, axis=-1)

    def layers(self) -> tuple[Affine, Affine, Affine]:
        """Return the network's three affine maps, exactly."""
        K, n = len(self.knots), self.outputs
        if K * n > MOST_ENTRIES:
            raise SizeError(
                f"{K:,} knots of {n} functions have {K * n:,} exact weights; the limit is "
                f"{MOST_ENTRIES:,}. Use a smaller ff_width, or the fused executor"
            )
        knots = self.knots.exact
        order = sorted(range(K), key=knots.__getitem__)
        first: dict[tuple[int, int], Fraction] = {}
        shift: dict[tuple[int, int], Fraction] = {}
        inner: dict[tuple[int, int], int] = {}
        for unit, (j, k) in enumerate(pairwise(order)):
            slope = 1 / (knots[k] - knots[j])
            falls, rises = 2 * unit, 2 * unit + 1  # hat j falls where hat k rises
            first[falls, 0], shift[falls, 0] = slope, -slope * knots[j]
            first[rises, 0], shift[rises, 0] = -slope, slope * knots[k]
            inner[j, falls] = inner[k, rises] = -1
        outer = {(i, j): Fraction(v) for (j, i), v in np.ndenumerate(self.values) if v}
        return (
            Affine(Matrix.of(2 * (K - 1), 1, first), Matrix.of(2 * (K - 1), 1, shift)),
            Affine(
                Matrix.of(K, 2 * (K - 1), inner), Matrix.of(K, 1, {(j, 0): 1 for j in range(K)})
            ),
            Affine(Matrix.of(n, K, outer), Matrix(n, 1, {})),
        )
