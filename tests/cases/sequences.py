"""Sequence maps for the tests: sizes, random tables, and what a model should answer."""

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import exactformer as ef
from exactformer.sequences.grid import Class, Grid, GridTable

SIZES = [(1, 2, 4), (1, 3, 4), (1, 2, 8), (2, 2, 3), (2, 3, 2), (3, 2, 2)]
"""(d, n, 1/δ)."""

FORMS = ["compact", "paper", "four-layer"]

Column = tuple[Fraction, ...]


def grid(size: tuple[int, int, int], form: str, positional: bool = False) -> Grid:
    d, n, N = size
    return Grid(n, d, N, positional, repeats=form == "four-layer")


def random_table(where: Grid, seed: int = 0) -> GridTable:
    """Return rationals of small and of large size; equal columns have equal values."""
    rng = random.Random(seed)
    values = {}
    for ids in where.classes():
        columns: dict[int, list[Fraction]] = {}
        for j, k in enumerate(ids):
            name = j if where.positional else k
            columns.setdefault(
                name, [Fraction(rng.randint(-99, 99), rng.randint(1, 9)) for _ in range(where.dim)]
            )
        named = [columns[j if where.positional else k] for j, k in enumerate(ids)]
        values[ids] = named
    return GridTable.of(where, values)


def softened(f: Any, **options: Any) -> ef.SequenceModel:
    """Compile a map and soften it; options are those of either."""
    names = ("tolerance", "sharpness", "ramp", "p", "executor")
    soft = {name: options.pop(name) for name in names if name in options}
    return ef.compile_sequence(f, **options).softened(**soft)


def expected(table: GridTable, ids: Sequence[int | None]) -> list[list[Fraction]]:
    """Return what the columns of a sequence go to; ``None`` is a column outside."""
    where = table.grid
    nothing = [[Fraction(0)] * where.dim] * where.tokens
    if None in ids:
        return nothing
    known = [k for k in ids if k is not None]
    if where.positional:
        return [list(column) for column in table.values[tuple(known)]]
    name = tuple(sorted(known))
    if name not in table.values:
        return nothing
    return [list(table.values[name][name.index(k)]) for k in known]


def somewhere(where: Grid, column: int, rng: random.Random) -> Column:
    """Return a point of a cell."""
    return where.place(column, Fraction(rng.randrange(16), 16))


def symbols(where: Grid, rng: random.Random) -> Iterator[tuple[Column, bool]]:
    """Return a column for every way to be in a cell or outside, by coordinate; and whether it is in.

    To the layers what is outside is one more cell of a coordinate.
    """
    low, high = where.support
    side = (high - low) / where.cells
    for cells in product(range(where.cells + 1), repeat=where.dim):
        column = []
        for q in cells:
            if q < where.cells:
                column.append(low + side * (q + Fraction(rng.randrange(16), 16)))
            else:
                column.append(rng.choice([low - side / 7, high, high + side, low - 1000]))
        yield tuple(column), where.cells not in cells


def every_class(where: Grid) -> Iterator[Class]:
    """Return all classes of inside columns, equal columns included."""
    if where.positional:
        return where.classes()
    return combinations_with_replacement(range(where.points), where.tokens)
