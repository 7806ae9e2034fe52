"""Sequence blueprints and their tables in files: lossless, sealed, without pickle.

The table is one matrix with a row for each class, in the order of :meth:`Grid.classes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from exactformer.core.files import FileKind
from exactformer.core.header import check_names
from exactformer.core.layers import BiasedHead
from exactformer.core.matrix import Matrix
from exactformer.errors import FileFormatError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import Columns, Grid, GridTable
from exactformer.sequences.proof.error import SOURCE
from exactformer.sequences.shapes import check_sequence_shapes

FINEST_RAMP = 64
"""Ramps of 2^(−k) of a cell; float64 resolves fewer."""
MOST_ZEROS = 2**21
"""Zeros in a table: a file does not hold them, and memory does."""


@dataclass(frozen=True)
class SequenceFile:
    """What a file holds: a blueprint, and the values on every class of a grid."""

    blueprint: SequenceBlueprint
    grid: Grid
    values: Matrix
    """(classes, n d): the columns of a class one after another."""


FILE = FileKind("sequence", SequenceFile, variants=(BiasedHead,), large=("largest_key",))


def save_sequence(blueprint: SequenceBlueprint, table: GridTable, path: str | Path) -> None:
    """Write a blueprint and its target; an existing file is replaced only once all is written."""
    FILE.save(_file(blueprint, table), path)


def sequence_digest(blueprint: SequenceBlueprint, table: GridTable) -> str:
    """Return a SHA-256 over every weight, name and value: equal for equal models only."""
    return FILE.digest(_file(blueprint, table))


def load_sequence(path: str | Path) -> tuple[SequenceBlueprint, GridTable]:
    """Read a blueprint and its target; anything that is not what was saved raises."""
    return FILE.load(path, _checked)


def _file(blueprint: SequenceBlueprint, table: GridTable) -> SequenceFile:
    grid, classes = table.grid, len(table.values)
    n, d = grid.tokens, grid.dim
    if grid.size_up_to(classes) != classes:
        raise FileFormatError(f"a table of {classes:,} classes does not have those of its grid")
    entries: dict[tuple[int, int], Fraction] = {}
    for row, ids in enumerate(grid.classes()):
        columns = table.values.get(ids, ())
        if len(columns) != n or any(len(column) != d for column in columns):
            raise FileFormatError(f"the table has no {n} columns of {d} values for the class {ids}")
        numbers = (value for column in columns for value in column)
        entries.update(((row, k), value) for k, value in enumerate(numbers) if value)
    values = Matrix(classes, n * d, entries)
    _check_zeros(values)
    metadata = {k: v for k, v in blueprint.metadata.items() if k != SOURCE}  # set on reading
    return SequenceFile(replace(blueprint, metadata=metadata), grid, values)


def _checked(file: SequenceFile) -> tuple[SequenceBlueprint, GridTable]:
    blueprint, grid = file.blueprint, file.grid
    check_sequence_shapes(blueprint)
    check_names(blueprint.dimensions, "dimensions")
    _check_metadata(blueprint.metadata)
    sizes = ("tokens", "dim", "cells", "positional", "support")
    for name in sizes:
        if getattr(grid, name) != getattr(blueprint, name):
            raise FileFormatError(f"{name} of the table is not that of the blueprint")
    if "modulus" in blueprint.metadata:  # from now on a statement of the file
        metadata = {**blueprint.metadata, SOURCE: "the file"}
        blueprint = replace(blueprint, metadata=metadata)
    return blueprint, _table(grid, file.values)


def _table(grid: Grid, values: Matrix) -> GridTable:
    """Return the table; its size is compared with the grid's before any power is written out."""
    n, d = grid.tokens, grid.dim
    _check_zeros(values)
    if values.columns != n * d or not values.rows or grid.size_up_to(values.rows) != values.rows:
        raise FileFormatError("the table does not have one value for every class of its grid")
    nothing: Columns = ((Fraction(0),) * d,) * n
    table = dict.fromkeys(grid.classes(), nothing)
    for row, ids in enumerate(table):
        if row in values.by_row:
            numbers = dict(values.by_row[row])
            flat = [numbers.get(k, Fraction(0)) for k in range(n * d)]
            table[ids] = tuple(tuple(flat[k : k + d]) for k in range(0, n * d, d))
    return GridTable(grid, table)


def _check_zeros(values: Matrix) -> None:
    if (zeros := values.rows * values.columns - values.nonzeros) > MOST_ZEROS:
        raise FileFormatError(f"the table has {zeros:,} zeros; the limit is {MOST_ZEROS:,}")


def _check_metadata(metadata: Mapping[str, str]) -> None:
    """Check the numbers in the metadata: a short text may spell an enormous one."""
    sharpness, ramp = metadata.get("sharpness", "1"), metadata.get("ramp", "2")
    if not re.fullmatch(r"[0-9]{1,4000}(/[0-9]{1,4000})?", sharpness):
        raise FileFormatError(f"sharpness={sharpness[:40]!r} is not a plain fraction")
    if not all(int(part) for part in sharpness.split("/")):
        raise FileFormatError(f"sharpness={sharpness[:40]!r} is not a positive number")
    if not re.fullmatch(r"[0-9]{1,2}", ramp) or not 2 <= int(ramp) <= FINEST_RAMP:
        raise FileFormatError(f"ramp={ramp[:40]!r} is not an integer from 2 to {FINEST_RAMP}")
