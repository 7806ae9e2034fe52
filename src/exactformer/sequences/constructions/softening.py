"""From hard to soft: a sequence blueprint with softmax for the hard maximum and ReLUs for jumps.

* **Softmax.** Every hard maximum becomes a softmax of inverse temperature λ. Scores that differ, differ
  by at least half a cell squared, so the weight beside the maximum is about exp(−λδ²/2), δ being what a
  cell measures in the stream (1 in the compact form).
* **Ramps.** A piecewise-linear φ that jumps by J at b becomes continuous: the jump is spread over a
  ramp of width w, which is (J/w)·(relu(t − a) − relu(t − a − w)). A change of slope is one ReLU more.
  Starting from a piece where φ is 0, no φ of the theorem needs more than four.

The quantiser's jumps are met by inputs, so its ramps have to be steep: width 2^(−k) of a cell, on the
side where φ is not 0. All other ramps are met by integers only (counted in cells): a quarter of a cell,
centred at the jump, leaves codes that are off by up to 3/8 of a cell exactly what they were.

The paper's stream holds the output in the rows of the column, so that an input on a ramp may come out
as large as a key. A last stage, **clip**, takes every coordinate back between the smallest and the
largest value of the table; it changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import (
    ACTIVATIONS,
    Attention,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import InputError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.grid import GridTable

Ramps = tuple[tuple[Fraction, Fraction] | None, ...]
"""For every break, where its ramp begins and ends; None where φ is continuous."""
Relu = tuple[int, Fraction, Fraction]
"""(σ, o, c): c·relu(σt + o)."""

MOST_RELUS = 4
NOTHING = (Fraction(0), Fraction(0))
WIDE = Fraction(1, 4)
"""Width of the ramps that only integers meet, in cells."""


def soften(
    blueprint: SequenceBlueprint,
    table: GridTable,
    sharpness: Fraction,
    ramp: int,
) -> SequenceBlueprint:
    """Return the softmax-ReLU realisation of a hard blueprint.

    ``sharpness`` is λ, ``ramp`` the k of the quantiser's ramps, 2^(−k) of a cell.
    """
    if sharpness <= 0 or ramp < 2:
        raise InputError(f"sharpness={sharpness} must be positive, and ramp={ramp} at least 2")
    unit = cell(blueprint)

    def softened(part: Layer, stage: str) -> Layer:
        if isinstance(part, Attention):
            return Attention(part.heads, Selection(Rule.SOFTMAX, 1 / sharpness))
        if part.activation in ACTIVATIONS.values():
            raise InputError("only a hard blueprint can be softened")
        steep = stage == "quantise"
        width = unit * (Fraction(1, 2**ramp) if steep else WIDE)
        return _continuous(part, ramps(part.activation, width, steep))

    stages = [
        Stage(stage.name, tuple(softened(part, stage.name) for part in stage.parts))
        for stage in blueprint.stages
    ]
    if blueprint.form == "paper":
        stages.append(Stage("clip", _clip(blueprint, table)))
    return replace(
        blueprint,
        realisation="softmax-relu",
        stages=tuple(stages),
    )


def cell(blueprint: SequenceBlueprint) -> Fraction:
    """Return what a cell measures in the stream."""
    return 1 / min(abs(value) for _, _, value in blueprint.code)


def ramps(function: PiecewiseLinear, width: Fraction, steep: bool) -> Ramps:
    """Return the ramps of a function's jumps: centred, or on the side where it is not 0."""
    found: list[tuple[Fraction, Fraction] | None] = []
    for k, b in enumerate(function.breaks):
        before, after = (function.pieces[k + side] for side in (0, 1))
        if before[0] * b + before[1] == after[0] * b + after[1]:
            found.append(None)
        elif not steep:
            found.append((b - width / 2, b + width / 2))
        elif after == NOTHING:
            found.append((b - width, b))
        else:
            found.append((b, b + width))
    return tuple(found)


def relu_sum(function: PiecewiseLinear, spread: Ramps) -> tuple[Relu, ...]:
    """Return the ReLUs whose sum is a function with its jumps spread over ramps."""
    start = function.pieces.index(NOTHING)
    units = [*_side(function, spread, start, 1), *_side(function, spread, start, -1)]
    if len(units) > MOST_RELUS:
        merged: dict[tuple[int, Fraction], Fraction] = {}
        for sign, offset, weight in units:
            merged[sign, offset] = merged.get((sign, offset), Fraction(0)) + weight
        units = [(sign, offset, weight) for (sign, offset), weight in merged.items()]
    return tuple(units)


def _side(function: PiecewiseLinear, spread: Ramps, start: int, sign: int) -> Iterator[Relu]:
    """Yield the ReLUs of all breaks above (sign 1) or below (−1) the piece where φ is 0."""
    places = range(start, len(function.breaks)) if sign > 0 else range(start - 1, -1, -1)
    for k in places:
        b = function.breaks[k]
        near, far = (function.pieces[k + side] for side in ((0, 1) if sign > 0 else (1, 0)))
        bend = sign * (far[0] - near[0])
        if bend:
            yield sign, -sign * b, bend
        between = spread[k]
        if between is not None:
            jump = (far[0] - near[0]) * b + far[1] - near[1]
            first, last = between if sign > 0 else between[::-1]
            steepness = jump / abs(last - first)
            yield sign, -sign * first, steepness
            yield sign, -sign * last, -steepness


def _continuous(layer: FeedForward, spread: Ramps) -> FeedForward:
    """Return the layer with its jumps spread; some ReLUs stand for every unit."""
    units = relu_sum(layer.activation, spread)
    h, m, w = len(units), layer.w1.rows, layer.w1.columns
    w1, b1, w2 = {}, {}, {}
    for s in range(m):
        for k, (sign, offset, weight) in enumerate(units):
            row = s * h + k
            w1.update({(row, j): sign * v for j, v in layer.w1.by_row.get(s, ())})
            b1[row, 0] = sign * layer.b1[s, 0] + offset
            w2.update({(i, row): weight * v for i, v in layer.w2.by_column.get(s, ())})
    size = m * h
    matrices = Matrix.of(size, w, w1), Matrix.of(size, 1, b1), Matrix.of(w, size, w2)
    together = None if layer.successive is None else layer.successive * h
    return FeedForward(*matrices, layer.b2, successive=together)


def _clip(blueprint: SequenceBlueprint, table: GridTable) -> tuple[FeedForward, ...]:
    """Return one layer a row that takes it between the smallest and the largest of its values."""
    w, parts = blueprint.width, []
    for r in range(blueprint.dim):
        found = [c[r] for columns in table.values.values() for c in columns]
        low, high = min(Fraction(0), *found), max(Fraction(0), *found)
        if low == high:  # nothing but zeros; any interval that holds them will do
            high += 1
        function = PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (-1, high)))
        one = {(0, r): 1}
        layer = FeedForward(
            Matrix.of(1, w, one),
            Matrix.of(1, 1, {}),
            Matrix.of(w, 1, {(r, 0): 1}),
            Matrix.of(w, 1, {}),
            function,
            successive=1,
        )
        parts.append(_continuous(layer, (None, None)))
    return tuple(parts)
