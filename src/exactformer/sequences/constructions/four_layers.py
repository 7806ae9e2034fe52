"""Any sequence map on a grid in four layers, equal columns included.

Where the proof of Yun et al. tells contexts apart by many attention layers, one suffices if columns are
first given numbers whose sums are all different
(:mod:`~exactformer.sequences.constructions.bose_chowla`): the sum over the tokens names the multiset of
columns, the column's own id completes the key.

               x 1 … x d | id  | number | value 1 … value d
    column i     N·X_i   | i·D |   0    |     0  …  0

1. feed-forward, d(N + 1) steps: id += uᵀ(cells); a coordinate outside takes K·u_r from it;
2. feed-forward, a unit an id: number += a_id; without an id it is so negative that all sums are;
3. attention, one head, all scores 0: id += K·(sum of the numbers), the key;
4. feed-forward, a unit a key: value += its value.

With positions the ids are i·D + id < K = nD, and numbers a = D^i·id have different sums as digits do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from exactformer.core.layers import (
    Attention,
    FeedForward,
    Head,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import column
from exactformer.core.rows import Rows, Weights
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.constructions.bose_chowla import sum_distinct_numbers
from exactformer.sequences.grid import Class, Grid, GridTable

STEP = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
INDICATOR = PiecewiseLinear.of((-Fraction(1, 2), Fraction(1, 2)), ((0, 0), (0, 1), (0, 0)))


@dataclass(frozen=True)
class FourLayers:
    """Rows and numbers that the four layers share."""

    grid: Grid

    @property
    def ids(self) -> int:
        """K, the number of ids."""
        return self.grid.points * (self.grid.tokens if self.grid.positional else 1)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The number of every id."""
        n, D = self.grid.tokens, self.grid.points
        if self.grid.positional:
            return tuple(D**i * column for i in range(n) for column in range(D))
        return sum_distinct_numbers(D, n)

    @cached_property
    def rows(self) -> Rows:
        """The rows of the stream."""
        axes = range(1, self.grid.dim + 1)
        return Rows(*(f"x {r}" for r in axes), "id", "number", *(f"value {r}" for r in axes))

    def keys(self, ids: Class) -> list[int]:
        """Return the key of every column of a class."""
        stride = self.grid.points if self.grid.positional else 0
        names = [column + i * stride for i, column in enumerate(ids)]
        total = sum(self.numbers[name] for name in names)
        return [name + self.ids * total for name in names]

    def embedding(self) -> SequenceEmbedding:
        """Take the support to [0, N), in units of cells."""
        grid, axes = self.grid, self.rows.every("x")
        low, high = grid.support
        scale = grid.cells / (high - low)
        stride = grid.points if grid.positional else 0
        return SequenceEmbedding(
            self.rows.writing(*({name: scale} for name in axes)),
            self.rows.writing(dict.fromkeys(axes, -scale * low)),
            self.rows.writing(*({"id": i * stride} for i in range(grid.tokens))),
        )

    def quantise(self) -> FeedForward:
        """Return the layer that counts the edges below every coordinate."""
        N, K = self.grid.cells, self.ids
        axes = list(enumerate(self.rows.every("x")))
        # The first edge brings a coordinate in, the last takes it out again.
        steps = [K, *[1] * (N - 1), -(K + N - 1)]
        return FeedForward(
            self.rows.reading(*({name: 1} for _, name in axes for _ in steps)),
            column([-k for _ in axes for k in range(N + 1)]),
            self.rows.writing(*({"id": N**r * step} for r, _ in axes for step in steps)),
            self.rows.writing({"id": -K * sum(N**r for r, _ in axes)}),
            STEP,
        )

    def number(self) -> FeedForward:
        """Return the layer that looks up the number of an id."""
        far = self.grid.tokens * max(self.numbers) + 1
        columns = {k: {"number": a + far} for k, a in enumerate(self.numbers)}
        return self.look_up(columns, {"number": -far})

    def look_up(self, columns: Mapping[int, Weights], rest: Weights) -> FeedForward:
        """Return a unit for every key, which reads the id and adds a column."""
        return FeedForward(
            self.rows.reading(*[{"id": 1}] * len(columns)),
            column([-key for key in columns]),
            self.rows.writing(*columns.values()),
            self.rows.writing(rest),
            INDICATOR,
        )

    def sum(self) -> Attention:
        """Return the layer that gives every token K times the sum of all numbers."""
        nothing = self.rows.reading({})
        total = self.rows.mixing({"id": {"number": self.ids * self.grid.tokens}})
        return Attention((Head(nothing, nothing, total),), Selection(Rule.HARD_MAX))


def four_layers(table: GridTable) -> SequenceBlueprint:
    """Return the blueprint that maps every class of the grid to its values, equal columns included."""
    grid = table.grid
    layers = FourLayers(grid)
    outputs = layers.rows.every("value")
    columns = {
        key: dict(zip(outputs, targets[j], strict=True))
        for ids, targets in table.values.items()
        for j, key in enumerate(layers.keys(ids))
    }
    return SequenceBlueprint(
        tokens=grid.tokens,
        dim=grid.dim,
        delta=Fraction(1, grid.cells),
        form="four-layer",
        positional=grid.positional,
        support=grid.support,
        realisation="hard",
        dimensions=layers.rows.names,
        embedding=layers.embedding(),
        stages=(
            Stage("quantise", (layers.quantise(),)),
            Stage("contextual mapping", (layers.number(), layers.sum())),
            Stage("values", (layers.look_up(columns, {}),)),
        ),
        readout=layers.rows.reading(*({name: 1} for name in outputs)),
        code=layers.rows.reading({"id": 1}),
        largest_key=max(columns),
    )
