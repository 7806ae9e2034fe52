"""Any sequence map on a grid, layer by layer (Yun et al. 2020), in two forms.

A stream holds n columns; δ = 1/N, D = N^d, u = (1, N, …, N^(d−1)), so that uᵀL/δ is the id of a column
L of the grid. Three stages:

* **quantise**: one feed-forward layer a cell takes every coordinate to the lower edge of its cell, one
  more takes what lies outside the cube far away, to −δ^(−nd);
* **contextual mapping**: one attention layer an id, of two heads of size one. A head's score is
  (uᵀz_i − (k ∓ ½)δ)·uᵀz_j, so its maximum is at the largest uᵀz_j or at the smallest, by the sign of
  the first factor. The heads disagree only for columns of id k: these move up by D·(largest −
  smallest). One more layer adds D^(n+1)·(largest) to every column. Now uᵀz is the column's *key*
  (:mod:`~exactformer.sequences.constructions.keys`), which tells the column and its context;
* **values**: one feed-forward layer a key replaces the column by its value.

``paper`` follows the proof in a stream of d rows. It needs a stage more, **reject**, that sends columns
without a key to 0, and a global shift large enough for values not to be taken for keys.

``compact`` works in units of δ, so that all numbers are integers, and writes the values to rows of
their own:

               x 1 … x d  | position | value 1 … value d
    column i    N·X_i     |    i     |     0  …  0

Nothing needs to be rejected, since what has no key is given no value; values are never read; nothing
cancels. The position, where there is one, has a row too: u ends with D, ids are i·D + id.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import InputError
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.constructions.keys import keys, largest_key, smallest_key
from exactformer.sequences.grid import Class, Grid, GridTable

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Layout:
    """Rows, units and numbers that the stages of one form share."""

    grid: Grid
    form: str

    @property
    def is_paper(self) -> bool:
        """Whether the stream has the d rows of the proof."""
        return self.form == "paper"

    @property
    def unit(self) -> Fraction:
        """What one cell measures in the stream."""
        return Fraction(1, self.grid.cells) if self.is_paper else Fraction(1)

    @property
    def span(self) -> int:
        """How many cells a coordinate of the stream may lie in."""
        stacked = self.is_paper and self.grid.positional
        return self.grid.cells * (self.grid.tokens if stacked else 1)

    @cached_property
    def read(self) -> tuple[int, ...]:
        """The vector u, over the rows that it reads."""
        powers = tuple(self.grid.cells**r for r in range(self.grid.dim))
        return powers if self.is_paper or not self.grid.positional else (*powers, self.grid.points)

    @property
    def factor(self) -> int:
        """K: more than every id, and the factor of the selective shifts."""
        if not self.grid.positional:
            return self.grid.points
        # The paper's X + 1·(0, …, n − 1) gives a column at position i the id i·N·Σu + id.
        stride = self.grid.cells * sum(self.read) if self.is_paper else self.grid.points
        return self.grid.tokens * stride

    @property
    def far(self) -> int:
        """Where what lies outside goes, in cells below 0: farther than keys can make up for."""
        return int(self.grid.cells * self.factor**self.grid.tokens)

    @property
    def names(self) -> tuple[str, ...]:
        """The rows' names."""
        axes = range(1, self.grid.dim + 1)
        rows = tuple(f"x {r}" for r in axes)
        if self.is_paper:
            return rows
        position = ("position",) if self.grid.positional else ()
        return (*rows, *position, *(f"value {r}" for r in axes))

    @property
    def width(self) -> int:
        """The number of rows."""
        return len(self.names)

    def value_row(self, r: int) -> int:
        """Where value r stands."""
        return r if self.is_paper else self.width - self.grid.dim + r

    def stream(self, column: int, position: int) -> tuple[int, ...]:
        """Return a quantised column as the rows that u reads, in cells."""
        cells = self.grid.coordinates(column)
        if not self.grid.positional:
            return cells
        if self.is_paper:
            return tuple(position * self.grid.cells + q for q in cells)
        return (*cells, position)

    def ids(self, classes: Class) -> list[int]:
        """Return the ids u gives to the columns of a class."""
        columns = (self.stream(column, i) for i, column in enumerate(classes))
        return [sum(a * b for a, b in zip(self.read, c, strict=True)) for c in columns]

    def embedding(self) -> SequenceEmbedding:
        """Take the support to [0, 1), or to [0, N) in units of cells."""
        grid, w = self.grid, self.width
        low, high = grid.support
        scale = grid.cells * self.unit / (high - low)
        axes, tokens = range(grid.dim), range(grid.tokens)
        positions: dict[tuple[int, int], int] = {}
        if grid.positional:
            rows = axes if self.is_paper else (grid.dim,)
            positions = {(r, i): i for r in rows for i in tokens}
        return SequenceEmbedding(
            Matrix.of(w, grid.dim, {(r, r): scale for r in axes}),
            Matrix.of(w, 1, {(r, 0): -scale * low for r in axes}),
            Matrix.of(w, grid.tokens, positions),
        )

    def reading(self, units: int) -> Matrix:
        """Return u as the row of every one of so many units."""
        places = {(m, r): u for m in range(units) for r, u in enumerate(self.read)}
        return Matrix.of(units, self.width, places)

    def scalar(
        self, row: int, activation: PiecewiseLinear, biases: list[Fraction] | None = None
    ) -> FeedForward:
        """Return layers that change one row by a function of itself."""
        shifts = [Fraction(0)] if biases is None else biases
        m, w = len(shifts), self.width
        return FeedForward(
            Matrix.of(m, w, {(k, row): 1 for k in range(m)}),
            Matrix.of(m, 1, {(k, 0): b for k, b in enumerate(shifts)}),
            Matrix.of(w, m, {(row, k): 1 for k in range(m)}),
            Matrix.of(w, 1, {}),
            activation,
            successive=1,
        )


def sequence_layers(table: GridTable, form: str) -> SequenceBlueprint:
    """Return the blueprint that maps every class of the grid to its values, all else to 0."""
    grid = table.grid
    layout = Layout(grid, form)
    refuse_key_zero(layout)
    shift = global_shift(layout, table.largest)
    code = {(0, r): u / layout.unit for r, u in enumerate(layout.read)}
    look_up = values(layout, table, shift)
    stages = [
        Stage("quantise", quantise(layout)),
        Stage("contextual mapping", contextual_mapping(layout, shift)),
        *([Stage("reject", reject(layout, shift))] if layout.is_paper else []),
        Stage("values", (look_up,)),
    ]
    return SequenceBlueprint(
        tokens=grid.tokens,
        dim=grid.dim,
        delta=Fraction(1, grid.cells),
        form=form,
        positional=grid.positional,
        support=grid.support,
        realisation="hard",
        dimensions=layout.names,
        embedding=layout.embedding(),
        stages=tuple(stages),
        readout=Matrix.of(
            grid.dim, layout.width, {(r, layout.value_row(r)): 1 for r in range(grid.dim)}
        ),
        code=Matrix.of(1, layout.width, code),
        largest_key=int(max((-b for _, _, b in look_up.b1), default=0) / layout.unit),
    )


def refuse_key_zero(layout: Layout) -> None:
    """Refuse one token in the paper's form: 0 is then a key, and it is what rejected columns become."""
    if layout.is_paper and layout.grid.tokens == 1:
        raise InputError(
            "form='paper' needs at least two tokens: with one, 0 is a key, and a rejected column "
            "becomes 0; use form='compact'"
        )


def global_shift(layout: Layout, largest_value: Fraction) -> int:
    """Return G = K^(n+1), in the paper's form enlarged until no value can be taken for a key."""
    n, K = layout.grid.tokens, layout.factor
    shift = int(K ** (n + 1))
    if layout.is_paper:
        reach = sum(layout.read) * largest_value
        while reach >= layout.unit * (smallest_key(n, K, shift) - HALF):
            shift *= K
    return shift


def quantise(layout: Layout) -> tuple[FeedForward, ...]:
    """Return N layers a coordinate that collapse its cells, and one that sends outsiders away."""
    s, axes = layout.unit, range(layout.grid.dim)
    collapse = PiecewiseLinear.of((0, s), ((0, 0), (-1, 0), (0, 0)))
    away = (-1, -layout.far * s)
    outside = PiecewiseLinear.of((0, layout.span * s), (away, (0, 0), away))
    edges = [-k * s for k in range(layout.span)]
    return (
        *(layout.scalar(r, collapse, edges) for r in axes),
        *(layout.scalar(r, outside) for r in axes),
    )


def contextual_mapping(layout: Layout, shift: int) -> tuple[Layer, ...]:
    """Return the selective shifts, ids ascending, and the global shift."""
    w, K = layout.width, layout.factor
    read = layout.reading(1)

    def head(bias: Fraction, weight: int) -> BiasedHead:
        value = Matrix.of(w, w, {(0, r): weight * u for r, u in enumerate(layout.read)})
        return BiasedHead(read, read, value, Matrix.of(1, 1, {(0, 0): bias * layout.unit}))

    selection = Selection(Rule.HARD_MAX)
    selective = [Attention((head(HALF - k, K), head(-HALF - k, -K)), selection) for k in range(K)]
    return (*selective, Attention((head(Fraction(0), shift),), selection))


def reject(layout: Layout, shift: int) -> tuple[FeedForward, ...]:
    """Return the layers that take every column whose key is not between t_l and t_r to 0."""
    n, K, w, s = layout.grid.tokens, layout.factor, layout.width, layout.unit
    smallest, largest = (s * t(n, K, shift) for t in (smallest_key, largest_key))
    low, high = smallest - s / 2, largest + s / 2
    strength = 2 * (largest + 1) / s + 2
    band = FeedForward(
        layout.reading(1),
        Matrix.of(1, 1, {}),
        Matrix.of(w, 1, {(r, 0): -strength for r in range(w)}),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high))),
        successive=1,
    )
    negative = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))
    return (band, *(layout.scalar(r, negative) for r in range(w)))


def values(layout: Layout, table: GridTable, shift: int) -> FeedForward:
    """Return one layer a key: it adds the value, less the column where that is in the same rows."""
    s, w = layout.unit, layout.width
    biases: list[Fraction] = []
    columns: dict[tuple[int, int], Fraction] = {}
    for ids, targets in table.values.items():
        names = layout.ids(ids)
        for j, key in enumerate(keys(names, layout.factor, shift)):
            m = len(biases)
            biases.append(-key * s)
            for r, value in enumerate(targets[j]):
                columns[layout.value_row(r), m] = value
            if layout.is_paper:
                for r, q in enumerate(layout.stream(ids[j], j)):
                    moved = key - names[j] if r == 0 else 0
                    columns[r, m] -= (q + moved) * s
    m = len(biases)
    return FeedForward(
        layout.reading(m),
        Matrix.of(m, 1, {(k, 0): b for k, b in enumerate(biases)}),
        Matrix.of(w, m, columns),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of((-s / 2, s / 2), ((0, 0), (0, 1), (0, 0))),
        successive=1,
    )
