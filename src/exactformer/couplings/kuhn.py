"""Interpolation of a function of several numbers, as exact ReLU layers, on Kuhn's triangulation.

A box is cut into N^d cells and every cell into d! simplices, {0 ≤ z_π(d) ≤ … ≤ z_π(1) ≤ 1} for each
order π of its coordinates. What is 1 at knot j, 0 at all others and linear on every simplex is

    hat_j(x) = relu(1 − max(0, z_1, …, z_d) − max(0, −z_1, …, −z_d)),   z_i = (x_i − t_{j,i})/h_i,

and a maximum is a chain of ReLUs, max(a, b) = a + relu(b − a) with a ≥ 0 carried along:

    layer 1        relu(±z_i), shared by the knots of a grid line
    layers 2 … d   the maximum over 1 … i, in two parts, and relu(±z_i) yet to come
    layer d + 1    the hats
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from exactformer.core.matrix import Matrix
from exactformer.couplings.interpolant import MOST_ENTRIES, Affine, Floats, Interval, check_visible
from exactformer.errors import InputError, SizeError

Entries = dict[tuple[int, int], Fraction | int]

MOST_COORDINATES = 3
"""Of the values that F takes: its knots are a grid in so many dimensions."""


@dataclass(frozen=True, eq=False)
class KuhnInterpolant:
    """A function of d numbers by its values at the (N + 1)^d knots of a box; d ≥ 2."""

    box: tuple[Interval, ...]
    pieces: int
    values: Floats
    """(knots, n); the last coordinate runs quickest."""

    def __post_init__(self) -> None:
        if len(self.box) < 2 or self.pieces < 1 or any(low >= high for low, high in self.box):
            raise InputError("an interpolant on a box needs two intervals or more")
        check_visible(self.box)
        few = len(self.box) <= self.values.size.bit_length()  # before a power is written out
        if (
            self.values.ndim != 2
            or not few
            or len(self.values) != (self.pieces + 1) ** len(self.box)
        ):
            raise InputError(
                f"values of the shape {self.values.shape} do not fit {self.pieces + 1} knots a side "
                f"in {len(self.box)} dimensions"
            )
        if not np.isfinite(self.values).all():
            raise InputError("a function is not finite at one of the knots")

    @property
    def outputs(self) -> int:
        """n."""
        return int(self.values.shape[1])

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of the hidden layers."""
        d, K = len(self.box), len(self.values)
        chain = tuple(2 * K * (d - i + 2) for i in range(2, d + 1))
        return (2 * d * (self.pieces + 1), *chain, K)

    def __call__(self, x: Floats) -> Floats:
        """Evaluate in float64: ``(..., d)`` to ``(..., n)``."""
        low, high = (np.array([float(v) for v in ends]) for ends in zip(*self.box, strict=True))
        place = np.clip((x - low) / (high - low) * self.pieces, 0, self.pieces)
        corner = np.minimum(np.floor(place), self.pieces - 1)
        order = np.argsort(-(place - corner), axis=-1, kind="stable")
        inside = np.take_along_axis(place - corner, order, axis=-1)
        strides = (self.pieces + 1) ** np.arange(len(self.box))[::-1]
        knot = (corner.astype(np.int64) * strides).sum(axis=-1)
        total: Floats = (1 - inside[..., :1]) * self.values[knot]
        for i in range(len(self.box)):
            knot = knot + strides[order[..., i]]
            rest = inside[..., i + 1 : i + 2] if i + 1 < len(self.box) else 0.0
            total = total + (inside[..., i : i + 1] - rest) * self.values[knot]
        return total

    def layers(self) -> tuple[Affine, ...]:
        """Return the network's d + 2 affine maps, exactly."""
        d, K, side = len(self.box), len(self.values), self.pieces + 1
        if (entries := K * max(self.outputs, 6 * d)) > MOST_ENTRIES:
            raise SizeError(
                f"{K:,} knots in {d} dimensions have about {entries:,} exact weights a layer; the "
                f"limit is {MOST_ENTRIES:,}. Use a smaller ff_width, or the fused executor"
            )
        first: Entries = {}
        shift: Entries = {}
        for i, (low, high) in enumerate(self.box):
            slope = self.pieces / (high - low)
            for j in range(side):
                for s, sign in enumerate((1, -1)):
                    if j == (self.pieces, 0)[s]:
                        continue  # a hat on the edge does not fall beyond it
                    unit = (2 * i + s) * side + j
                    first[unit, i] = sign * slope
                    shift[unit, 0] = -sign * (slope * low + j)
        layers = [_affine(2 * d * side, d, first, shift)]
        grid = list(enumerate(product(range(side), repeat=d)))
        chain: Entries = {}
        width = (
            2 * d
        )  # units of a knot and their order: for each sign, the maximum's parts, the rest
        for k, knot in grid:
            for s in (0, 1):
                row = k * width + s * d
                column = [(2 * i + s) * side + knot[i] for i in range(d)]
                _maximum_step(chain, row, column[:1], column[1:])
        layers.append(_affine(K * width, 2 * d * side, chain, {}))
        for i in range(3, d + 1):
            chain, before, width = {}, width, 2 * (d - i + 2)
            for k, _ in grid:
                for s in (0, 1):
                    start = k * before + s * (before // 2)
                    column = list(range(start, start + before // 2))
                    _maximum_step(chain, k * width + s * (width // 2), column[:2], column[2:])
            layers.append(_affine(K * width, K * before, chain, {}))
        hats: Entries = {(k, k * width + c): -1 for k in range(K) for c in range(width)}
        layers.append(_affine(K, K * width, hats, {(k, 0): 1 for k in range(K)}))
        values = {(i, j): Fraction(v) for (j, i), v in np.ndenumerate(self.values) if v}
        layers.append(Affine(Matrix.of(self.outputs, K, values), Matrix(self.outputs, 1, {})))
        return tuple(layers)


def _maximum_step(chain: Entries, row: int, maximum: list[int], rest: list[int]) -> None:
    """Write the units: maximum so far; next − maximum; and the rest, as they are."""
    for column in maximum:
        chain[row, column] = 1
        chain[row + 1, column] = -1
    chain[row + 1, rest[0]] = 1
    for offset, column in enumerate(rest[1:], start=2):
        chain[row + offset, column] = 1


def _affine(rows: int, columns: int, weight: Entries, bias: Entries) -> Affine:
    return Affine(Matrix.of(rows, columns, weight), Matrix.of(rows, 1, bias))
