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
from exactformer.core.matrix import Matrix
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

    @property
    def names(self) -> tuple[str, ...]:
        """The rows' names."""
        axes = range(1, self.grid.dim + 1)
        rows = (f"x {r}" for r in axes)
        return (*rows, "id", "number", *(f"value {r}" for r in axes))

    @property
    def width(self) -> int:
        """The number of rows."""
        return 2 * self.grid.dim + 2

    @property
    def id_row(self) -> int:
        """Where the id stands, and at last the key."""
        return self.grid.dim

    @property
    def number_row(self) -> int:
        """Where the number stands."""
        return self.grid.dim + 1

    def keys(self, ids: Class) -> list[int]:
        """Return the key of every column of a class."""
        stride = self.grid.points if self.grid.positional else 0
        names = [column + i * stride for i, column in enumerate(ids)]
        total = sum(self.numbers[name] for name in names)
        return [name + self.ids * total for name in names]

    def embedding(self) -> SequenceEmbedding:
        """Take the support to [0, N), in units of cells."""
        grid, w = self.grid, self.width
        low, high = grid.support
        scale = grid.cells / (high - low)
        axes = range(grid.dim)
        stride = grid.points if grid.positional else 0
        return SequenceEmbedding(
            Matrix.of(w, grid.dim, {(r, r): scale for r in axes}),
            Matrix.of(w, 1, {(r, 0): -scale * low for r in axes}),
            Matrix.of(w, grid.tokens, {(self.id_row, i): i * stride for i in range(grid.tokens)}),
        )

    def quantise(self) -> FeedForward:
        """Return the layer that counts the edges below every coordinate."""
        grid, w, K = self.grid, self.width, self.ids
        N, d = grid.cells, grid.dim
        units = d * (N + 1)
        read, edges, write = {}, {}, {}
        for r in range(d):
            for k in range(N + 1):
                m = r * (N + 1) + k
                read[m, r], edges[m, 0] = 1, -k
                # The first edge brings a coordinate in, the last takes it out again.
                steps = K if k == 0 else 1 if k < N else -(K + N - 1)
                write[self.id_row, m] = N**r * steps
        return FeedForward(
            Matrix.of(units, w, read),
            Matrix.of(units, 1, edges),
            Matrix.of(w, units, write),
            Matrix.of(w, 1, {(self.id_row, 0): -K * sum(N**r for r in range(d))}),
            STEP,
        )

    def number(self) -> FeedForward:
        """Return the layer that looks up the number of an id."""
        far = self.grid.tokens * max(self.numbers) + 1
        columns = {k: {self.number_row: Fraction(a + far)} for k, a in enumerate(self.numbers)}
        return self.look_up(columns, Matrix.of(self.width, 1, {(self.number_row, 0): -far}))

    def look_up(self, columns: dict[int, dict[int, Fraction]], rest: Matrix) -> FeedForward:
        """Return a unit for every key, which reads the id row and adds a column."""
        w, m = self.width, len(columns)
        write = {(row, k): v for k, c in enumerate(columns.values()) for row, v in c.items()}
        return FeedForward(
            Matrix.of(m, w, {(k, self.id_row): 1 for k in range(m)}),
            Matrix.of(m, 1, {(k, 0): -key for k, key in enumerate(columns)}),
            Matrix.of(w, m, write),
            rest,
            INDICATOR,
        )

    def sum(self) -> Attention:
        """Return the layer that gives every token K times the sum of all numbers."""
        w = self.width
        nothing = Matrix.of(1, w, {})
        total = {(self.id_row, self.number_row): self.ids * self.grid.tokens}
        return Attention(
            (Head(nothing, nothing, Matrix.of(w, w, total)),), Selection(Rule.HARD_MAX)
        )


def four_layers(table: GridTable) -> SequenceBlueprint:
    """Return the blueprint that maps every class of the grid to its values, equal columns included."""
    grid = table.grid
    layout = FourLayers(grid)
    first = layout.width - grid.dim
    columns = {
        key: {first + r: value for r, value in enumerate(targets[j])}
        for ids, targets in table.values.items()
        for j, key in enumerate(layout.keys(ids))
    }
    return SequenceBlueprint(
        tokens=grid.tokens,
        dim=grid.dim,
        delta=Fraction(1, grid.cells),
        form="four-layer",
        positional=grid.positional,
        support=grid.support,
        realisation="hard",
        dimensions=layout.names,
        embedding=layout.embedding(),
        stages=(
            Stage("quantise", (layout.quantise(),)),
            Stage("contextual mapping", (layout.number(), layout.sum())),
            Stage("values", (layout.look_up(columns, Matrix.of(layout.width, 1, {})),)),
        ),
        readout=Matrix.of(grid.dim, layout.width, {(r, first + r): 1 for r in range(grid.dim)}),
        code=Matrix.of(1, layout.width, {(0, layout.id_row): 1}),
        largest_key=max(columns),
    )
