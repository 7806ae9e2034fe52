"""Honest sequence blueprints, small ones, and the means to alter them.

A :class:`Draft` is a blueprint and a table that mutations change. The constructions are used only to
begin with: :func:`refit` gives any blueprint the look-up that its own keys, found by running it, need.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from exactformer.core.layers import IDENTITY, RELU, Attention, FeedForward, Layer, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import Class, Columns, Grid, GridTable
from tests.adversary.sequence_interpreter import Interpreter

Units = FeedForward
Entries = Mapping[tuple[int, int], Fraction | int]

UNIT = (Fraction(0), Fraction(1))
SUPPORTS = [UNIT] * 4 + [
    (Fraction(-1), Fraction(1)),
    (Fraction(1, 3), Fraction(2)),
    (Fraction(-5), Fraction(-3, 2)),
    (Fraction(100), Fraction(101)),
]
SIZES = [
    *[(1, 1, N) for N in (2, 3, 4)],
    *[(2, 1, N) for N in (2, 3)] * 5,
    *[(2, 1, 4)] * 2,
    (2, 1, 5),
    (3, 1, 3),
    (3, 1, 2),
    (1, 2, 2),
    (2, 2, 2),
]
"""(n, d, N), as often as they are drawn."""
RARE_SIZES = [
    (2, 1, 6),
    (3, 1, 4),
    (2, 1, 13),
    (1, 1, 13),
    (4, 1, 4),
    (6, 1, 6),
    (5, 1, 6),
    (2, 2, 3),
]


class NotApplicableError(Exception):
    """A mutation finds nothing to change in a draft."""


@dataclass
class Draft:
    """A blueprint and a table on the way to a candidate."""

    rng: random.Random
    blueprint: SequenceBlueprint
    table: GridTable
    mutations: list[str] = field(default_factory=list)

    @property
    def grid(self) -> Grid:
        return self.table.grid

    def alter(self, **changes: object) -> None:
        """Replace fields of the blueprint."""
        self.blueprint = replace(self.blueprint, **changes)  # type: ignore[arg-type]

    def regrid(self, **changes: object) -> None:
        """Replace fields of the table's grid; classes that it does not name have the value 0."""
        grid = replace(self.grid, **changes)  # type: ignore[arg-type]
        if grid.size > 400:
            raise NotApplicableError
        nothing: Columns = ((Fraction(0),) * grid.dim,) * grid.tokens
        old = self.table.values

        def value(ids: Class) -> Columns:
            known = old.get(ids, nothing)
            return known if len(known) == grid.tokens else nothing

        self.table = GridTable(grid, {ids: value(ids) for ids in grid.classes()})

    def unit(self) -> Fraction:
        """What a cell measures in the stream."""
        entries = list(self.blueprint.code.entries.values())
        if not entries:
            raise NotApplicableError
        return 1 / entries[0]

    def any_stage(self, *names: str) -> int:
        places = [
            s for s, stage in enumerate(self.blueprint.stages) if not names or stage.name in names
        ]
        if not places:
            raise NotApplicableError
        return self.rng.choice(places)

    def any_part(self, kind: Callable[[Layer], bool] = lambda part: True) -> tuple[int, int]:
        """Return a part, first a stage of those that have one, so that short stages are met too."""
        stages = [
            [(s, p) for p, part in enumerate(stage.parts) if kind(part)]
            for s, stage in enumerate(self.blueprint.stages)
        ]
        found = [places for places in stages if places]
        if not found:
            raise NotApplicableError
        return self.rng.choice(self.rng.choice(found))

    def part(self, place: tuple[int, int]) -> Layer:
        return self.blueprint.stages[place[0]].parts[place[1]]

    def put_parts(self, s: int, parts: tuple[Layer, ...], name: str | None = None) -> None:
        stages = list(self.blueprint.stages)
        stages[s] = Stage(stages[s].name if name is None else name, parts)
        self.alter(stages=tuple(stages))

    def put(self, place: tuple[int, int], *parts: Layer) -> None:
        """Replace one part by others."""
        s, p = place
        old = self.blueprint.stages[s].parts
        self.put_parts(s, (*old[:p], *parts, *old[p + 1 :]))

    def insert(self, s: int, *parts: Layer) -> None:
        """Insert parts somewhere into a stage, at its ends more often than between."""
        old = self.blueprint.stages[s].parts
        p = self.rng.choice([0, len(old), len(old), self.rng.randint(0, len(old))])
        self.put_parts(s, (*old[:p], *parts, *old[p:]))


def units_of(part: Layer) -> Units:
    """Return the units of a feed-forward part."""
    if isinstance(part, Attention):
        raise NotApplicableError
    return part


def with_units(part: Layer, units: Units) -> Layer:
    """Return a part with other units, one after another where the old ones were."""
    return replace(units, successive=units_of(part).successive)


def is_attention(part: Layer) -> bool:
    return isinstance(part, Attention)


def has_units(part: Layer) -> bool:
    return not isinstance(part, Attention)


def is_piecewise(part: Layer) -> bool:
    return isinstance(part, FeedForward) and part.activation not in (RELU, IDENTITY)


def changed(matrix: Matrix, entries: Entries) -> Matrix:
    """Return a matrix with some entries replaced."""
    return Matrix.of(matrix.rows, matrix.columns, {**matrix.entries, **entries})


def stacked(first: Matrix, second: Matrix) -> Matrix:
    """Return the rows of both."""
    below = {(i + first.rows, j): v for i, j, v in second}
    return Matrix.of(first.rows + second.rows, first.columns, {**first.entries, **below})


def joined(first: Matrix, second: Matrix) -> Matrix:
    """Return the columns of both."""
    right = {(i, j + first.columns): v for i, j, v in second}
    return Matrix.of(first.rows, first.columns + second.columns, {**first.entries, **right})


def taken(units: Units, order: list[int]) -> Units:
    """Return some of the units, in an order."""
    w1 = {(k, j): v for k, m in enumerate(order) for j, v in units.w1.by_row.get(m, ())}
    w2 = {(i, k): v for k, m in enumerate(order) for i, v in units.w2.by_column.get(m, ())}
    size = len(order)
    return replace(
        units,
        w1=Matrix.of(size, units.w1.columns, w1),
        b1=Matrix.of(size, 1, {(k, 0): units.b1[m, 0] for k, m in enumerate(order)}),
        w2=Matrix.of(units.w2.rows, size, w2),
    )


def with_more(units: Units, w1: Matrix, b1: Matrix, w2: Matrix) -> Units:
    """Return units followed by others of the same activation."""
    return replace(
        units,
        w1=stacked(units.w1, w1),
        b1=stacked(units.b1, b1),
        w2=joined(units.w2, w2),
    )


def small(rng: random.Random) -> Fraction:
    """Return a number that is not 0, mostly a small integer."""
    return Fraction(rng.choice([1, 1, 1, -1, -1, 2, -2, 3, 5])) / rng.choice([1, 1, 1, 1, 2, 3])


def random_value(rng: random.Random) -> Fraction:
    """Return a value of a table; 0 and 1 are frequent."""
    return rng.choice(
        [Fraction(0), Fraction(1), Fraction(rng.randint(-8, 8), rng.choice([1, 2, 3, 4]))]
    )


def random_values(rng: random.Random, grid: Grid) -> GridTable:
    """Return a random table; equal columns of a class without positions have equal values."""
    values: dict[Class, Columns] = {}
    for ids in grid.classes():
        by_name: dict[int, tuple[Fraction, ...]] = {}
        for j, column in enumerate(ids):
            name = j if grid.positional else column
            by_name.setdefault(name, tuple(random_value(rng) for _ in range(grid.dim)))
        names = range(grid.tokens) if grid.positional else ids
        values[ids] = tuple(by_name[name] for name in names)
    return GridTable(grid, values)


def honest_draft(rng: random.Random, soft: bool = False) -> Draft:
    """Return a blueprint of one of the constructions with a random table."""
    while True:
        n, d, N = rng.choice(RARE_SIZES if rng.random() < 0.01 and not soft else SIZES)
        form = rng.choice(["compact", "compact", "paper", "four-layer"])
        positional = rng.random() < 0.3
        grid = Grid(n, d, N, positional, form == "four-layer", rng.choice(SUPPORTS))
        if is_feasible(grid, form):
            table = random_values(rng, grid)
            return Draft(rng, SEQUENCE_FORMS[form](table), table)


def is_feasible(grid: Grid, form: str) -> bool:
    """Whether there is an honest blueprint, and a small one."""
    return 0 < grid.size <= 90 and not (form == "paper" and grid.tokens == 1)


RUNS_BADLY = (ExactformerError, ArithmeticError, LookupError, ValueError, TypeError)
"""What running an ill-formed blueprint may raise."""


def retabulate(draft: Draft) -> None:
    """Let the table be what the blueprint does at the centres of the classes in their own order."""
    grid = draft.grid
    classes = list(grid.classes())
    try:
        run = Interpreter(draft.blueprint)
        values = {ids: run([grid.centre(k) for k in ids]) for ids in classes}
    except RUNS_BADLY:
        raise NotApplicableError from None
    if any(len(columns) != grid.tokens for columns in values.values()):
        raise NotApplicableError
    draft.table = GridTable(grid, values)


def refit(draft: Draft) -> None:
    """Let the value layers fire at the keys that the blueprint gives the classes in their own order."""
    blueprint = draft.blueprint
    places = [(s, 0) for s, g in enumerate(blueprint.stages) if g.name == "values" and g.parts]
    if not places:
        raise NotApplicableError
    part = draft.part(places[0])
    units = units_of(part)
    outputs: dict[int, tuple[int, Fraction]] = {
        r: (row, weight) for r, row, weight in blueprint.readout
    }
    try:
        columns = dict(_look_ups(draft, outputs))
    except RUNS_BADLY:
        raise NotApplicableError from None
    if not columns:
        raise NotApplicableError
    keys, w, unit = list(columns), units.w2.rows, draft.unit()
    reads = {(m, r): v * unit for m in range(len(keys)) for _, r, v in blueprint.code}
    writes = {(row, m): v for m, key in enumerate(keys) for row, v in columns[key].items()}
    fitted = replace(
        units,
        w1=Matrix.of(len(keys), w, reads),
        b1=Matrix.of(len(keys), 1, {(m, 0): -key * unit for m, key in enumerate(keys)}),
        w2=Matrix.of(w, len(keys), writes),
    )
    draft.put(places[0], with_units(part, fitted))
    draft.alter(largest_key=int(max(keys)))


def _look_ups(
    draft: Draft, outputs: dict[int, tuple[int, Fraction]]
) -> Iterator[tuple[Fraction, dict[int, Fraction]]]:
    run = Interpreter(draft.blueprint)
    for ids, values in draft.table.values.items():
        stream = run.stream([draft.grid.centre(k) for k in ids], "values")
        for column, wanted in zip(stream, values, strict=True):
            (key,) = run.read(draft.blueprint.code, column)
            now = run.read(draft.blueprint.readout, column)
            writes = {
                row: (wanted[r] - now[r]) / weight
                for r, (row, weight) in outputs.items()
                if wanted[r] != now[r]
            }
            yield key, writes


def known_codes(draft: Draft) -> list[Fraction]:
    """Return biases that units of the blueprint have, in the units of the stream: its ids and keys."""
    found = [k * draft.unit() for k in range(min(6, draft.grid.points))]
    for stage in draft.blueprint.stages:
        if stage.name == "values" and stage.parts and has_units(stage.parts[0]):
            entries = list(units_of(stage.parts[0]).b1.entries.values())
            found += draft.rng.sample([-v for v in entries], min(4, len(entries)))
    return found


INDICATOR = PiecewiseLinear.of((-Fraction(1, 2), Fraction(1, 2)), ((0, 0), (0, 1), (0, 0)))
STEP = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
