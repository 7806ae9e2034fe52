"""What the quantiser of a sequence blueprint makes of every cell, with the coordinate as a symbol.

The stage is separable: a unit reads the row of one coordinate, its *home*, and writes to the same row
or to rows that no unit reads. So coordinates are followed one at a time. On an interval the home row is
an affine function of the coordinate; a unit's input then lies in one piece of its activation (this is
checked), and the home row is affine again. In the end it has to be a constant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from exactformer.blueprint.layers import FeedForward, PiecewiseFeedForward
from exactformer.blueprint.sequence import Part, SequenceBlueprint, Successive
from exactformer.errors import CertificationError

Bound = Fraction | float
"""An end of an interval; ±∞ is a float."""
Row = list[int]


@dataclass(frozen=True)
class Quantised:
    """The stream after the quantiser is a sum: a base for the position, and a part for each
    coordinate, by its cell. All in units of cells, one number a row of the stream.
    """

    base: tuple[Row, ...]
    """base[i]."""
    cells: tuple[tuple[tuple[Row, ...], ...], ...]
    """cells[i][r][q]."""
    outside: tuple[tuple[tuple[Row, ...], ...], ...] | None
    """outside[i][r]: below the support, and above it; ``None`` where these are not constant."""
    free: frozenset[int]
    """Rows that still hold a coordinate as it was; nothing after the quantiser may read them."""


@dataclass(frozen=True)
class _Unit:
    """home ↦ w·home + b, then the activation, then what it adds to which row."""

    weight: Fraction
    bias: Fraction
    layer: PiecewiseFeedForward
    writes: tuple[tuple[int, Fraction], ...]


def quantised(blueprint: SequenceBlueprint, unit: Fraction) -> Quantised:
    """Follow every cell of every coordinate; raise where one does not end at a single number."""
    d, n, w, N = blueprint.dim, blueprint.tokens, blueprint.width, blueprint.cells
    low, high = blueprint.support
    homes = _homes(blueprint)
    layers, rest = _layers(blueprint, homes)
    edges = [low + (high - low) * Fraction(k, N) for k in range(N + 1)]
    embedding = blueprint.embedding

    def row(place: int, i: int) -> Fraction:
        return embedding.constant[place, 0] + embedding.positions[place, i]

    known: dict[tuple[int, Fraction], list[dict[int, Fraction]]] = {}
    beyond: dict[tuple[int, Fraction], list[dict[int, Fraction]] | None] = {}

    def follow(r: int, i: int) -> tuple[int, Fraction]:
        start = (embedding.features[homes[r], r], row(homes[r], i))
        name = (r, start[1])
        if name not in known:
            ways = [_follow(layers[r], homes[r], start, edges[q], edges[q + 1]) for q in range(N)]
            if None in ways:
                raise CertificationError(
                    f"coordinate {r + 1}, cell {ways.index(None)}: the quantiser does not take the "
                    "whole cell to one number"
                )
            known[name] = [way for way in ways if way is not None]
            sides = [
                _follow(layers[r], homes[r], start, *side)
                for side in ((-inf, edges[0]), (edges[-1], inf))
            ]
            beyond[name] = [s for s in sides if s is not None] if None not in sides else None
        return name

    names = [[follow(r, i) for r in range(d)] for i in range(n)]
    sides = [[beyond[name] for name in line] for line in names]
    places = [place for place in range(w) if place not in homes]
    base = [
        _integers({p: row(p, i) + rest.get(p, Fraction(0)) for p in places}, w, unit)
        for i in range(n)
    ]
    written = {row for layer in layers for units in layer for u in units for row, _ in u.writes}
    return Quantised(
        free=frozenset(homes) - written,
        base=tuple(base),
        cells=tuple(
            tuple(tuple(_integers(c, w, unit) for c in known[name]) for name in line)
            for line in names
        ),
        outside=None
        if any(side is None for line in sides for side in line)
        else tuple(
            tuple(tuple(_integers(c, w, unit) for c in side or ()) for side in line)
            for line in sides
        ),
    )


def _homes(blueprint: SequenceBlueprint) -> list[int]:
    """Return the row of every coordinate."""
    features = blueprint.embedding.features
    rows = [[i for i, _ in features.by_column.get(r, ())] for r in range(blueprint.dim)]
    homes = [row[0] for row in rows if len(row) == 1]
    positive = all(v > 0 for v in features.entries.values())
    if len(set(homes)) != blueprint.dim or not positive:
        raise CertificationError("the embedding does not give every coordinate a row of its own")
    return homes


def _layers(
    blueprint: SequenceBlueprint, homes: list[int]
) -> tuple[list[list[list[_Unit]]], dict[int, Fraction]]:
    """Return, for each coordinate, the layers as lists of the units that read it; and all b₂."""
    layers: list[list[list[_Unit]]] = [[] for _ in homes]
    rest: dict[int, Fraction] = {}
    for part in blueprint.stage("quantise").parts:
        for layer in _split(part):
            for row, _, value in layer.b2:
                if row in homes:
                    raise CertificationError("the quantiser moves a coordinate by a constant")
                rest[row] = rest.get(row, Fraction(0)) + value
            units: list[list[_Unit]] = [[] for _ in homes]
            for m in range(layer.w1.rows):
                reads = layer.w1.by_row.get(m, [])
                writes = tuple(layer.w2.by_column.get(m, ()))
                if len(reads) != 1 or reads[0][0] not in homes or reads[0][1] <= 0:
                    raise CertificationError("a unit of the quantiser does not read one coordinate")
                r = homes.index(reads[0][0])
                if any(row in homes and row != homes[r] for row, _ in writes):
                    raise CertificationError("a unit of the quantiser writes to another coordinate")
                units[r].append(_Unit(reads[0][1], layer.b1[m, 0], layer, writes))
            for r, mine in enumerate(units):
                if mine:
                    layers[r].append(mine)
    return layers, rest


def _split(part: Part) -> Iterator[PiecewiseFeedForward]:
    for layer in part.layers() if isinstance(part, Successive) else (part,):
        if not isinstance(layer, PiecewiseFeedForward):
            kind = "ReLU" if isinstance(layer, FeedForward) else "attention"
            raise CertificationError(f"{kind} layers do not quantise exactly")
        yield layer


def _follow(
    layers: list[list[_Unit]], home: int, start: tuple[Fraction, Fraction], low: Bound, high: Bound
) -> dict[int, Fraction] | None:
    """Return what a coordinate in [low, high) adds to each row, or None where it is no constant."""
    slope, intercept = start
    result: dict[int, Fraction] = {}
    for layer in layers:
        change = (Fraction(0), Fraction(0))
        for unit in layer:
            a, b = unit.weight * slope, unit.weight * intercept + unit.bias
            breaks = unit.layer.activation.breaks
            first = a * low + b if a else b
            piece = bisect_right(breaks, first)
            if a and piece < len(breaks) and a * high + b > breaks[piece]:
                return None
            gain, offset = unit.layer.activation.pieces[piece]
            added = (gain * a, gain * b + offset)
            for row, weight in unit.writes:
                if row == home:
                    change = (change[0] + weight * added[0], change[1] + weight * added[1])
                elif added[0]:
                    return None
                else:
                    result[row] = result.get(row, Fraction(0)) + weight * added[1]
        slope, intercept = slope + change[0], intercept + change[1]
        if slope < 0:
            return None
    written = any(row == home for layer in layers for unit in layer for row, _ in unit.writes)
    if not written:
        return result
    if slope:
        return None
    result[home] = intercept
    return result


def _integers(row: dict[int, Fraction], width: int, unit: Fraction) -> Row:
    result = [0] * width
    for place, value in row.items():
        cells = value / unit
        if cells.denominator != 1:
            raise CertificationError(f"the quantiser leaves {value}, which is no grid point")
        result[place] = cells.numerator
    return result
