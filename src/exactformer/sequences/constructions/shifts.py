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

from collections.abc import Sequence
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
from exactformer.core.matrix import column
from exactformer.core.rows import Rows
from exactformer.errors import InputError
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.constructions.keys import keys, largest_key, smallest_key
from exactformer.sequences.grid import Class, Grid, GridTable

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Shared:
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
    def rows(self) -> Rows:
        """The rows of the stream."""
        axes = range(1, self.grid.dim + 1)
        coordinates = (f"x {r}" for r in axes)
        if self.is_paper:
            return Rows(*coordinates)
        position = ("position",) if self.grid.positional else ()
        return Rows(*coordinates, *position, *(f"value {r}" for r in axes))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The rows of a token's coordinates."""
        return self.rows.every("x")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The rows of a token's values."""
        return self.rows.every("x" if self.is_paper else "value")

    @cached_property
    def read(self) -> dict[str, int]:
        """The vector u, over the rows that it reads."""
        powers = {name: self.grid.cells**r for r, name in enumerate(self.coordinates)}
        return powers | ({"position": self.grid.points} if "position" in self.rows else {})

    @property
    def factor(self) -> int:
        """K: more than every id, and the factor of the selective shifts."""
        if not self.grid.positional:
            return self.grid.points
        # The paper's X + 1·(0, …, n − 1) gives a column at position i the id i·N·Σu + id.
        stride = self.grid.cells * sum(self.read.values()) if self.is_paper else self.grid.points
        return self.grid.tokens * stride

    @property
    def far(self) -> int:
        """Where what lies outside goes, in cells below 0: farther than keys can make up for."""
        return int(self.grid.cells * self.factor**self.grid.tokens)

    def stream(self, column: int, position: int) -> dict[str, int]:
        """Return a quantised column by the rows that u reads, in cells."""
        stacked = position * self.grid.cells if self.is_paper and self.grid.positional else 0
        cells = zip(self.coordinates, self.grid.coordinates(column), strict=True)
        place = {"position": position} if "position" in self.rows else {}
        return {name: stacked + q for name, q in cells} | place

    def ids(self, classes: Class) -> list[int]:
        """Return the ids u gives to the columns of a class."""
        columns = (self.stream(column, i) for i, column in enumerate(classes))
        return [sum(u * column[name] for name, u in self.read.items()) for column in columns]

    def embedding(self) -> SequenceEmbedding:
        """Take the support to [0, 1), or to [0, N) in units of cells."""
        low, high = self.grid.support
        scale = self.grid.cells * self.unit / (high - low)
        placed = self.coordinates if self.is_paper else ("position",)
        placed = placed if self.grid.positional else ()
        return SequenceEmbedding(
            self.rows.writing(*({name: scale} for name in self.coordinates)),
            self.rows.writing(dict.fromkeys(self.coordinates, -scale * low)),
            self.rows.writing(*(dict.fromkeys(placed, i) for i in range(self.grid.tokens))),
        )

    def scalar(
        self, name: str, activation: PiecewiseLinear, biases: Sequence[Fraction] = (Fraction(0),)
    ) -> FeedForward:
        """Return layers that change one row by a function of itself."""
        units = [{name: 1}] * len(biases)
        return FeedForward(
            self.rows.reading(*units),
            column(biases),
            self.rows.writing(*units),
            self.rows.writing({}),
            activation,
            successive=1,
        )


def sequence_layers(table: GridTable, form: str) -> SequenceBlueprint:
    """Return the blueprint that maps every class of the grid to its values, all else to 0."""
    grid = table.grid
    shared = Shared(grid, form)
    refuse_key_zero(shared)
    shift = global_shift(shared, table.largest)
    look_up = values(shared, table, shift)
    stages = [
        Stage("quantise", quantise(shared)),
        Stage("contextual mapping", contextual_mapping(shared, shift)),
        *([Stage("reject", reject(shared, shift))] if shared.is_paper else []),
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
        dimensions=shared.rows.names,
        embedding=shared.embedding(),
        stages=tuple(stages),
        readout=shared.rows.reading(*({name: 1} for name in shared.outputs)),
        code=shared.rows.reading({name: u / shared.unit for name, u in shared.read.items()}),
        largest_key=int(max((-b for _, _, b in look_up.b1), default=0) / shared.unit),
    )


def refuse_key_zero(shared: Shared) -> None:
    """Refuse one token in the paper's form: 0 is then a key, and it is what rejected columns become."""
    if shared.is_paper and shared.grid.tokens == 1:
        raise InputError(
            "form='paper' needs at least two tokens: with one, 0 is a key, and a rejected column "
            "becomes 0; use form='compact'"
        )


def global_shift(shared: Shared, largest_value: Fraction) -> int:
    """Return G = K^(n+1), in the paper's form enlarged until no value can be taken for a key."""
    n, K = shared.grid.tokens, shared.factor
    shift = int(K ** (n + 1))
    if shared.is_paper:
        reach = sum(shared.read.values()) * largest_value
        while reach >= shared.unit * (smallest_key(n, K, shift) - HALF):
            shift *= K
    return shift


def quantise(shared: Shared) -> tuple[FeedForward, ...]:
    """Return N layers a coordinate that collapse its cells, and one that sends outsiders away."""
    s, axes = shared.unit, shared.coordinates
    collapse = PiecewiseLinear.of((0, s), ((0, 0), (-1, 0), (0, 0)))
    away = (-1, -shared.far * s)
    outside = PiecewiseLinear.of((0, shared.span * s), (away, (0, 0), away))
    edges = [-k * s for k in range(shared.span)]
    return (
        *(shared.scalar(name, collapse, edges) for name in axes),
        *(shared.scalar(name, outside) for name in axes),
    )


def contextual_mapping(shared: Shared, shift: int) -> tuple[Layer, ...]:
    """Return the selective shifts, ids ascending, and the global shift."""
    K, read = shared.factor, shared.rows.reading(shared.read)

    def head(bias: Fraction, weight: int) -> BiasedHead:
        answer = {name: weight * u for name, u in shared.read.items()}
        value = shared.rows.mixing({"x 1": answer})
        return BiasedHead(read, read, value, column([bias * shared.unit]))

    selection = Selection(Rule.HARD_MAX)
    selective = [Attention((head(HALF - k, K), head(-HALF - k, -K)), selection) for k in range(K)]
    return (*selective, Attention((head(Fraction(0), shift),), selection))


def reject(shared: Shared, shift: int) -> tuple[FeedForward, ...]:
    """Return the layers that take every column whose key is not between t_l and t_r to 0."""
    n, K, s, rows = shared.grid.tokens, shared.factor, shared.unit, shared.rows
    smallest, largest = (s * t(n, K, shift) for t in (smallest_key, largest_key))
    low, high = smallest - s / 2, largest + s / 2
    strength = 2 * (largest + 1) / s + 2
    band = FeedForward(
        rows.reading(shared.read),
        column([0]),
        rows.writing(dict.fromkeys(rows, -strength)),
        rows.writing({}),
        PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high))),
        successive=1,
    )
    negative = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))
    return (band, *(shared.scalar(name, negative) for name in rows))


def values(shared: Shared, table: GridTable, shift: int) -> FeedForward:
    """Return one layer a key: it adds the value, less the column where that is in the same rows."""
    s, rows = shared.unit, shared.rows
    biases: list[Fraction] = []
    columns: list[dict[str, Fraction]] = []
    for ids, targets in table.values.items():
        names = shared.ids(ids)
        for j, key in enumerate(keys(names, shared.factor, shift)):
            biases.append(-key * s)
            columns.append(dict(zip(shared.outputs, targets[j], strict=True)))
            if shared.is_paper:
                for name, q in shared.stream(ids[j], j).items():
                    moved = key - names[j] if name == "x 1" else 0
                    columns[-1][name] -= (q + moved) * s
    return FeedForward(
        rows.reading(*[shared.read] * len(columns)),
        column(biases),
        rows.writing(*columns),
        rows.writing({}),
        PiecewiseLinear.of((-s / 2, s / 2), ((0, 0), (0, 1), (0, 0))),
        successive=1,
    )
