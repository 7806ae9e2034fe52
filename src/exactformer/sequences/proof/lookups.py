"""The three stages of a sequence blueprint, checked by algebra instead of by running every layer.

See :mod:`exactformer.sequences.proof.certify` for what is proven. Nothing here rests on a name, a flag
or a form that a blueprint gives itself: the first stage is followed cell by cell, the stages up to the
last are carried out on integers, and the last is read as a look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import inf

import numpy as np

from exactformer.algebra.rational import to_float
from exactformer.core.formats import FORMATS
from exactformer.core.layers import Attention, FeedForward, Layer
from exactformer.core.matrix import Matrix
from exactformer.core.run_exact import apply_layer, to_column, to_token
from exactformer.errors import CertificationError, IdentityError, RoundingError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import Class, Columns, Grid, GridTable
from exactformer.sequences.proof.cells import Quantised, quantised
from exactformer.sequences.proof.integers import (
    FLOAT_INTEGERS,
    Integers,
    Streams,
    attended,
    integer_type,
    looked_up,
    read_off,
    whole,
)
from exactformer.sequences.proof.outside import outside_goes_to_zero, starts_at_zero
from exactformer.sequences.shapes import check_sequence_shapes

PLAIN = ["quantise", "contextual mapping", "values"]
PLAIN_UNITS = frozenset(Fraction(2) ** k for k in range(-400, 401))
"""Cells of which float64 holds integer multiples exactly, and their products too: scores."""


@dataclass(frozen=True)
class Keys:
    """What the check found."""

    smallest_key: int
    largest_key: int
    rejected: int
    outside: bool
    float_exact: bool
    """Whether a module in float64 is shown to carry out all layers after the quantiser exactly."""


@dataclass(frozen=True)
class Lookup:
    """Feed-forward units that fire at integers: what each key adds to the stream."""

    read: Matrix
    """1 × w: what is looked up, in units of cells."""
    columns: dict[int, dict[int, Fraction]]
    """{key: {row: value}}."""
    rest: dict[int, Fraction]
    """What every token is given."""
    low: Fraction
    """Units fire from so much below their key, at most one cell."""
    high: Fraction
    """To so much above it, at most one cell."""
    plain: bool
    """Whether they fire at the same integers where their ends are rounded to float64."""
    in_turn: bool
    """Whether units act one after another on rows that they read: then a look-up must be shown to
    end after one of them has fired.
    """


def check_by_keys(blueprint: SequenceBlueprint, table: GridTable) -> Keys:
    """Prove that a hard blueprint reproduces a table; raise where it does not."""
    grid = table.grid
    check_sequence_shapes(blueprint)
    _check_grid(blueprint, table)
    unit = cell_unit(blueprint)
    after = quantised(blueprint, unit)
    if not after.free.isdisjoint(rows_read(blueprint)):
        raise CertificationError("a layer after the quantiser reads a coordinate as it was")
    classes = every_class(grid)
    streams = quantised_streams(grid, after, classes)
    plain = _is_plain(blueprint, unit)
    for part in blueprint.stages[1].parts:
        if isinstance(part, Attention):
            streams = attended(streams, part, unit)
        else:
            lookup = read_lookup(part, unit)
            plain = plain and lookup.plain
            if lookup.in_turn:
                raise CertificationError(
                    "units of the contextual mapping act one after another and read what they write"
                )
            streams = looked_up(streams, lookup.read, lookup.columns, lookup.rest)
    code = _scaled(blueprint.code, unit)
    codes, reach = read_off(streams, code)
    values = read_lookup(blueprint.stages[-1].parts[0], unit)
    if values.read != code or values.rest:
        raise CertificationError("the value layers do not read the code, or write without a key")
    reject = [layer for stage in blueprint.stages[2:-1] for layer in stage.layers()]
    if any(isinstance(layer, Attention) for layer in reject):
        raise CertificationError("columns are rejected one by one, not by attention")
    named = _compare(blueprint, table, values, unit, reject, classes, streams.entries, codes)
    keys = sorted(values.columns)
    # As many codes as there are tokens in context: no two of them have the same.
    if keys != sorted(named) or len(keys) != grid.keys:
        raise IdentityError(
            "value layers fire at other codes than those of the classes that have values"
        )
    if keys[-1] != blueprint.largest_key:
        raise IdentityError(
            f"the largest key is {keys[-1]}, and the blueprint names {blueprint.largest_key}"
        )
    plain = plain and values.plain and not (reject or values.in_turn)
    return Keys(
        smallest_key=keys[0],
        largest_key=keys[-1],
        rejected=len(classes) - grid.size,
        outside=outside_goes_to_zero(blueprint, after, unit, keys[0], keys[-1]),
        float_exact=plain and max(streams.largest, reach + keys[-1]) < FLOAT_INTEGERS,
    )


def cell_unit(blueprint: SequenceBlueprint) -> Fraction:
    """Return what a cell measures in the stream, by the code, whose smallest weight counts cells."""
    return 1 / min(abs(weight) for weight in blueprint.code.entries.values())


def rows_read(blueprint: SequenceBlueprint) -> set[int]:
    """Return the rows that anything after the quantiser reads."""
    matrices = [blueprint.readout, blueprint.code]
    for stage in blueprint.stages[1:]:
        for part in stage.parts:
            if isinstance(part, Attention):
                matrices += [m for h in part.heads for m in (h.query, h.key, h.value)]
            else:
                matrices.append(part.w1)
    return {row for matrix in matrices for _, row in matrix.entries}


def reads_values_only(blueprint: SequenceBlueprint) -> bool:
    """Whether every output is an entry of the stream as it is."""
    outputs = [blueprint.readout.by_row.get(r, []) for r in range(blueprint.dim)]
    return all(len(row) == 1 and row[0][1] == 1 for row in outputs)


def check_weights(blueprint: SequenceBlueprint) -> None:
    """Raise unless layers in float64 have these weights, whatever is done with small numbers.

    A number below the normal ones is read as zero where a processor is set to.
    """
    numbers = [v for matrix in blueprint.matrices() for _, _, v in matrix]
    for stage in blueprint.stages:
        for part in stage.parts:
            if isinstance(part, FeedForward):
                numbers += part.activation.breaks
                numbers += (v for piece in part.activation.pieces for v in piece)
    for size in {abs(v) for v in numbers if v}:
        if not FORMATS["float64"].tiny <= to_float(size) < inf:
            raise RoundingError(
                f"a weight of about 2^{_exponent(size)} is not a normal number in float64, from "
                "2^-1022 to 2^1024: layers cannot have it, or some processors take it for zero. Use "
                "a hard model with executor='fused' or 'exact'"
            )


def _exponent(size: Fraction) -> int:
    return size.numerator.bit_length() - size.denominator.bit_length()


def _check_grid(blueprint: SequenceBlueprint, table: GridTable) -> None:
    grid = table.grid
    own = (blueprint.tokens, blueprint.dim, blueprint.delta, blueprint.positional)
    theirs = (grid.tokens, grid.dim, Fraction(1, grid.cells), grid.positional)
    if (*own, blueprint.support) != (*theirs, grid.support):
        raise CertificationError("blueprint and table are not on the same grid")
    if blueprint.realisation != "hard":
        raise CertificationError("only the hard realisation is exact")
    names = [stage.name for stage in blueprint.stages]
    if (
        names not in (PLAIN, [*PLAIN[:2], "reject", PLAIN[2]])
        or len(blueprint.stages[-1].parts) != 1
    ):
        raise CertificationError(f"the stages are {', '.join(names)}, not those of the theorem")
    if len(table.values) != grid.size or any(ids not in table.values for ids in grid.classes()):
        raise CertificationError(f"the table does not hold the {grid.size} classes of its grid")


def every_class(grid: Grid) -> Integers:
    """Return all classes of inside columns, those without a value too, one per row."""
    ids = range(grid.points)
    if grid.positional:
        axes = np.indices((grid.points,) * grid.tokens)
        return axes.reshape(grid.tokens, -1).T
    classes = list(combinations_with_replacement(ids, grid.tokens))
    return np.array(classes, dtype=np.int64).reshape(-1, grid.tokens)


def quantised_streams(grid: Grid, after: Quantised, classes: Integers) -> Streams:
    """Return the quantised streams of classes, (classes, n, w)."""
    powers = grid.cells ** np.arange(grid.dim)
    cells = classes[..., None] // powers % grid.cells
    kind = integer_type((1 + grid.dim) * after.largest)
    columns = []
    for i in range(grid.tokens):
        column: Integers = np.array(after.base[i], dtype=kind)[None]
        for r in range(grid.dim):
            column = column + np.array(after.cells[i][r], dtype=kind)[cells[:, i, r]]
        columns.append(column)
    return Streams(np.stack(columns, axis=1), after.largest)


def read_lookup(units: Layer, unit: Fraction) -> Lookup:
    """Read units that fire at one integer each; raise where a part is anything else.

    Units that act one after another are a look-up as well where they do not read what they write, or
    where it is shown (by the caller, for ``in_turn``) that none fires at another's result.
    """
    if not isinstance(units, FeedForward):
        raise CertificationError("a look-up has piecewise-linear units")
    low, high = (*units.activation.breaks, Fraction(0), Fraction(0))[:2]
    zero, one = (Fraction(0), Fraction(0)), (Fraction(0), Fraction(1))
    if units.activation.pieces != (zero, one, zero) or not _is_at_zero(low, high, unit):
        raise CertificationError("the units of a look-up do not fire at single integers")
    first = units.w1.by_row.get(0)
    if first is None or any(units.w1.by_row.get(m) != first for m in range(units.w1.rows)):
        raise CertificationError("the units of a look-up do not read the same")
    columns: dict[int, dict[int, Fraction]] = {}
    for m in range(units.w1.rows):
        key = whole(-units.b1[m, 0] / unit)
        if key in columns:
            raise IdentityError(f"two units fire at the key {key}")
        columns[key] = {row: v / unit for row, v in units.w2.by_column.get(m, ())}
    written = {row for matrix in (units.w2, units.b2) for row, _ in matrix.entries}
    return Lookup(
        read=Matrix(1, units.w1.columns, {(0, r): v for r, v in first}),
        columns=columns,
        rest={row: v / unit for row, _, v in units.b2},
        low=low,
        high=high,
        plain=_is_at_zero(to_float(low), to_float(high), unit),
        in_turn=units.successive is not None and not written.isdisjoint(r for r, _ in first),
    )


def _is_at_zero(low: Fraction | float, high: Fraction | float, unit: Fraction) -> bool:
    """Whether 0 is the only multiple of the unit in [low, high)."""
    return -unit < low <= 0 < high <= unit


def _is_plain(blueprint: SequenceBlueprint, unit: Fraction) -> bool:
    """Whether float64 holds small multiples of a cell, and outputs round values and nothing else."""
    try:
        check_weights(blueprint)
    except RoundingError:
        return False
    return unit in PLAIN_UNITS and starts_at_zero(blueprint) and reads_values_only(blueprint)


def _compare(
    blueprint: SequenceBlueprint,
    table: GridTable,
    values: Lookup,
    unit: Fraction,
    reject: list[Layer],
    classes: Integers,
    stream: Integers,
    codes: Integers,
) -> set[int]:
    """Compare what the value layers make of every class with the table, exactly.

    Return the codes that they find at classes with values.
    """
    grid, found = table.grid, set()
    nothing: Columns = ((Fraction(0),) * grid.dim,) * grid.tokens
    # A column that reads less than this makes no unit fire, whichever key is the smallest.
    silent = min(values.columns) * unit + values.low
    for ids, columns, named in zip(classes.tolist(), stream.tolist(), codes.tolist(), strict=True):
        expected = table.values.get(tuple(ids), nothing)
        for j, (column, code) in enumerate(zip(columns, named, strict=True)):
            current = [v * unit for v in column]
            if reject:
                token = [to_token(current)]
                for layer in reject:
                    token = apply_layer(layer, token)
                current = to_column(token[0], blueprint.width)
                code = _read(blueprint.code, current)
                if code.denominator != 1:
                    raise CertificationError(
                        f"class {tuple(ids)}: token {j + 1} is left with the code {code}, no integer"
                    )
            if tuple(ids) in table.values:
                found.add(int(code))
            result = list(current)
            for row, value in values.columns.get(code, {}).items():
                result[row] += value * unit
            if values.in_turn and code in values.columns and _read(values.read, result) >= silent:
                raise CertificationError(
                    f"class {tuple(ids)}: a later value layer may take the value of token {j + 1} "
                    "for a key"
                )
            output = [_read(_row(blueprint.readout, r), result) for r in range(grid.dim)]
            if tuple(output) != expected[j]:
                raise IdentityError(_difference(tuple(ids), j, output, expected[j]))
    return found


def _read(matrix: Matrix, column: list[Fraction]) -> Fraction:
    return sum((v * column[r] for _, r, v in matrix), Fraction(0))


def _difference(ids: Class, j: int, output: list[Fraction], expected: tuple[Fraction, ...]) -> str:
    got, wanted = ([to_float(v) for v in column] for column in (output, expected))
    return f"class {ids}: token {j + 1} comes out as {got}, the table has {wanted}"


def _row(matrix: Matrix, row: int) -> Matrix:
    return Matrix(1, matrix.columns, {(0, j): v for j, v in matrix.by_row.get(row, ())})


def _scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    return Matrix.of(
        matrix.rows, matrix.columns, {p: v * factor for p, v in matrix.entries.items()}
    )
