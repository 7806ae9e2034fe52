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
from itertools import pairwise

from exactformer.core.layers import RELU, Attention, FeedForward, Layer, PiecewiseLinear
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import Grid

Row = list[int]
Affine = tuple[Fraction, Fraction]
"""(a, b): a·x + b."""


@dataclass(frozen=True)
class Quantised:
    """The stream after the quantiser is a sum: a base for the position, and a part for each
    coordinate, by its cell. All in units of cells, one number per row of the stream.
    """

    base: tuple[Row, ...]
    """base[i]."""
    cells: tuple[tuple[tuple[Row, ...], ...], ...]
    """cells[i][r][q]."""
    outside: tuple[tuple[tuple[Row, ...], ...], ...] | None
    """outside[i][r]: below the support, and above it; ``None`` where these are not constant."""
    free: frozenset[int]
    """Rows that still hold a coordinate as it was; nothing after the quantiser may read them."""

    @property
    def largest(self) -> int:
        """The largest number of all parts."""
        rows = [row for line in self.cells for way in line for row in way]
        return max(abs(v) for row in (*self.base, *rows) for v in row)


@dataclass(frozen=True)
class Unit:
    """home ↦ w·home + b, then the activation, then what it adds to which row."""

    weight: Fraction
    bias: Fraction
    activation: PiecewiseLinear
    writes: tuple[tuple[int, Fraction], ...]
    part: int
    """The part of the stage that it belongs to."""


@dataclass(frozen=True)
class Visit:
    """A unit's input is a·x + b while coordinate r of token i runs through a cell [low, high)."""

    token: int
    coordinate: int
    part: int
    line: Affine
    low: Fraction
    high: Fraction


def quantised(blueprint: SequenceBlueprint, unit: Fraction) -> Quantised:
    """Follow every cell of every coordinate; raise where one does not end at a single number."""
    n, w = blueprint.tokens, blueprint.width
    walk = _Walk.of(blueprint)
    edges = cell_edges(blueprint)
    known: dict[tuple[int, Fraction], list[dict[int, Fraction]]] = {}
    beyond: dict[tuple[int, Fraction], list[dict[int, Fraction]] | None] = {}

    def follow(r: int, i: int) -> tuple[int, Fraction]:
        name = (r, walk.start(r, i)[1])
        if name not in known:
            cells = [walk.follow(r, i, *ends) for ends in pairwise(edges)]
            if None in cells:
                raise CertificationError(
                    f"coordinate {r + 1}, cell {cells.index(None)}: the quantiser does not take the "
                    "whole cell to one number"
                )
            known[name] = [cell for cell in cells if cell is not None]
            sides = [walk.follow(r, i, *side) for side in ((None, edges[0]), (edges[-1], None))]
            beyond[name] = [s for s in sides if s is not None] if None not in sides else None
        return name

    names = [[follow(r, i) for r in range(blueprint.dim)] for i in range(n)]
    sides = [[beyond[name] for name in line] for line in names]
    places = [place for place in range(w) if place not in walk.homes]
    base = [
        _integers({p: walk.constant(p, i) + walk.rest.get(p, Fraction(0)) for p in places}, w, unit)
        for i in range(n)
    ]
    return Quantised(
        free=frozenset(walk.homes) - walk.written,
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


def visits(blueprint: SequenceBlueprint) -> Iterator[Visit]:
    """Yield, for every cell of every coordinate, what each unit of a quantiser reads there."""
    walk = _Walk.of(blueprint)
    edges = cell_edges(blueprint)
    known: dict[tuple[int, Affine], list[list[tuple[int, Affine]]]] = {}
    for i in range(blueprint.tokens):
        for r in range(blueprint.dim):
            name = (r, walk.start(r, i))
            if name not in known:  # tokens that start alike go the same way
                known[name] = [[] for _ in edges[1:]]
                for ends, seen in zip(pairwise(edges), known[name], strict=True):
                    walk.follow(r, i, *ends, seen)
            for (low, high), seen in zip(pairwise(edges), known[name], strict=True):
                for part, line in seen:
                    yield Visit(i, r, part, line, low, high)


def cell_edges(grid: SequenceBlueprint | Grid) -> list[Fraction]:
    """Return the N + 1 edges of the cells along a side of the support."""
    low, high = grid.support
    N = grid.cells
    return [low + (high - low) * Fraction(k, N) for k in range(N + 1)]


@dataclass(frozen=True)
class _Walk:
    """The quantiser, taken apart: for each coordinate its home and the layers of units that read it."""

    blueprint: SequenceBlueprint
    homes: list[int]
    layers: list[list[list[Unit]]]
    rest: dict[int, Fraction]
    """What every token is given, whatever it holds."""
    written: frozenset[int]
    """Rows that a unit writes to."""

    @classmethod
    def of(cls, blueprint: SequenceBlueprint) -> _Walk:
        homes = _homes(blueprint)
        layers, rest = _layers(blueprint, homes)
        units = (unit for line in layers for layer in line for unit in layer)
        written = frozenset(row for unit in units for row, _ in unit.writes)
        return cls(blueprint, homes, layers, rest, written)

    def constant(self, place: int, i: int) -> Fraction:
        embedding = self.blueprint.embedding
        return embedding.constant[place, 0] + embedding.positions[place, i]

    def start(self, r: int, i: int) -> Affine:
        """Return what the embedding makes of a coordinate."""
        home = self.homes[r]
        return self.blueprint.embedding.features[home, r], self.constant(home, i)

    def follow(
        self,
        r: int,
        i: int,
        low: Fraction | None,
        high: Fraction | None,
        seen: list[tuple[int, Affine]] | None = None,
    ) -> dict[int, Fraction] | None:
        """Return what a coordinate in [low, high) adds to each row, or None where it is no constant.

        An end that is None is infinite. ``seen`` is given the part of every unit on the way, and what
        it reads as a line in x.
        """
        home, (slope, intercept) = self.homes[r], self.start(r, i)
        result: dict[int, Fraction] = {}
        for layer in self.layers[r]:
            change = (Fraction(0), Fraction(0))
            for unit in layer:
                line = unit.weight * slope, unit.weight * intercept + unit.bias
                if seen is not None:
                    seen.append((unit.part, line))
                piece = _piece(unit.activation, line, low, high)
                if piece is None:
                    return None
                gain, offset = piece
                added = (gain * line[0], gain * line[1] + offset)
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
        if home not in self.written:
            return result
        if slope:
            return None
        result[home] = intercept
        return result


def _piece(
    activation: PiecewiseLinear, line: Affine, low: Fraction | None, high: Fraction | None
) -> Affine | None:
    """Return the piece that holds a·x + b for all x in [low, high), a ≥ 0; None if there is none."""
    a, b = line
    breaks = activation.breaks
    if not a:
        return activation.pieces[bisect_right(breaks, b)]
    piece = 0 if low is None else bisect_right(breaks, a * low + b)
    if piece < len(breaks) and (high is None or a * high + b > breaks[piece]):
        return None
    return activation.pieces[piece]


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
) -> tuple[list[list[list[Unit]]], dict[int, Fraction]]:
    """Return, for each coordinate, the layers as lists of the units that read it; and all b₂."""
    layers: list[list[list[Unit]]] = [[] for _ in homes]
    rest: dict[int, Fraction] = {}
    for p, part in enumerate(blueprint.stages[0].parts):
        for layer in _split(part):
            for row, _, value in layer.b2:
                if row in homes:
                    raise CertificationError("the quantiser moves a coordinate by a constant")
                rest[row] = rest.get(row, Fraction(0)) + value
            units: list[list[Unit]] = [[] for _ in homes]
            for m in range(layer.w1.rows):
                reads = layer.w1.by_row.get(m, [])
                writes = tuple(layer.w2.by_column.get(m, ()))
                if len(reads) != 1 or reads[0][0] not in homes or reads[0][1] <= 0:
                    raise CertificationError("a unit of the quantiser does not read one coordinate")
                r = homes.index(reads[0][0])
                if any(row in homes and row != homes[r] for row, _ in writes):
                    raise CertificationError("a unit of the quantiser writes to another coordinate")
                units[r].append(Unit(reads[0][1], layer.b1[m, 0], layer.activation, writes, p))
            for r, mine in enumerate(units):
                if mine:
                    layers[r].append(mine)
    return layers, rest


def _split(part: Layer) -> Iterator[FeedForward]:
    if isinstance(part, Attention) or part.activation == RELU:
        kind = "attention" if isinstance(part, Attention) else "ReLU"
        raise CertificationError(f"{kind} layers do not quantise exactly")
    yield from part.layers()


def _integers(row: dict[int, Fraction], width: int, unit: Fraction) -> Row:
    result = [0] * width
    for place, value in row.items():
        cells = value / unit
        if cells.denominator != 1:
            raise CertificationError(f"the quantiser leaves {value}, which is no grid point")
        result[place] = cells.numerator
    return result
