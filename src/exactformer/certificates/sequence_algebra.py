"""The three stages of a sequence blueprint, checked by algebra instead of by running every layer.

See :mod:`exactformer.certificates.sequences` for what is proven. Streams are arrays of integers,
counted in the blueprint's unit (a cell): int64 where the next layer cannot leave it, Python's own
integers otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.blueprint.layers import Attention, BiasedHead, PiecewiseFeedForward, Rule
from exactformer.blueprint.matrix import Matrix
from exactformer.blueprint.sequence import SequenceBlueprint, Successive
from exactformer.blueprint.sequence_table import Class, Columns, Grid, GridTable
from exactformer.certificates.sequence_cells import Quantised, quantised
from exactformer.certificates.sequence_outside import outside_goes_to_zero
from exactformer.errors import CertificationError, IdentityError
from exactformer.execution.sequence_exact import apply_layer

Integers = NDArray[Any]
PLAIN = ["quantise", "contextual mapping", "values"]
_SAFE = 2**62


@dataclass(frozen=True)
class Keys:
    """What the check found."""

    smallest_key: int
    largest_key: int
    rejected: int
    outside: bool


@dataclass(frozen=True)
class Lookup:
    """Feed-forward units that fire at integers: what each key adds to the stream."""

    read: Matrix
    """1 × w: what is looked up, in units of cells."""
    columns: dict[int, dict[int, Fraction]]
    """{key: {row: value}}."""
    rest: dict[int, Fraction]
    """What every token is given."""


def check_by_keys(blueprint: SequenceBlueprint, table: GridTable) -> Keys:
    """Prove that a hard blueprint reproduces a table; raise where it does not."""
    grid = table.grid
    _check_shape(blueprint, grid)
    unit = 1 / next(iter(blueprint.code.entries.values()))
    after = quantised(blueprint, unit)
    if not after.free.isdisjoint(rows_read(blueprint)):
        raise CertificationError("a layer after the quantiser reads a coordinate as it was")
    classes = _every_class(grid)
    stream = _streams(grid, after, classes)
    for part in blueprint.stage("contextual mapping").parts:
        if isinstance(part, Attention):
            stream = _attention(part, stream, unit)
        else:
            stream = _look_up(read_lookup(part, unit), stream)
    codes = _times(stream, blueprint.code, unit)
    values = read_lookup(blueprint.stage("values").parts[0], unit)
    if values.read != _scaled(blueprint.code, unit) or values.rest:
        raise CertificationError("the value layers do not read the code, or write without a key")
    _check_distinct(grid, classes, codes)
    _compare(blueprint, table, values, unit, classes, stream, codes)
    keys = sorted(values.columns)
    if len(keys) != grid.keys or keys[-1] != blueprint.largest_key:
        raise IdentityError(
            f"there are {len(keys)} keys up to {keys[-1]}; the grid has {grid.keys} tokens in "
            f"context, the largest key should be {blueprint.largest_key}"
        )
    return Keys(
        smallest_key=keys[0],
        largest_key=keys[-1],
        rejected=len(classes) - grid.size,
        outside=outside_goes_to_zero(blueprint, after, unit, keys[0], keys[-1]),
    )


def rows_read(blueprint: SequenceBlueprint) -> set[int]:
    """Return the rows that anything after the quantiser reads."""
    matrices = [blueprint.readout, blueprint.code]
    for stage in blueprint.stages[1:]:
        for part in stage.parts:
            if isinstance(part, Attention):
                matrices += [m for h in part.heads for m in (h.query, h.key, h.value)]
            else:
                matrices.append((part.units if isinstance(part, Successive) else part).w1)
    return {row for matrix in matrices for _, row in matrix.entries}


def _check_shape(blueprint: SequenceBlueprint, grid: Grid) -> None:
    own = (blueprint.tokens, blueprint.dim, blueprint.cells, blueprint.positional)
    if (*own, blueprint.support) != (
        grid.tokens,
        grid.dim,
        grid.cells,
        grid.positional,
        grid.support,
    ):
        raise CertificationError("blueprint and table are not on the same grid")
    if blueprint.realisation != "hard":
        raise CertificationError("only the hard realisation is exact")
    names = [stage.name for stage in blueprint.stages]
    if (
        names not in (PLAIN, [*PLAIN[:2], "reject", PLAIN[2]])
        or len(blueprint.stages[-1].parts) != 1
    ):
        raise CertificationError(f"the stages are {', '.join(names)}, not those of the theorem")


def _every_class(grid: Grid) -> Integers:
    """Return all classes of inside columns, those without a value too, one a row."""
    ids = range(grid.points)
    if grid.positional:
        axes = np.indices((grid.points,) * grid.tokens)
        return axes.reshape(grid.tokens, -1).T
    classes = list(combinations_with_replacement(ids, grid.tokens))
    return np.array(classes, dtype=np.int64).reshape(-1, grid.tokens)


def _streams(grid: Grid, after: Quantised, classes: Integers) -> Integers:
    """Return the quantised streams of classes, (classes, n, w)."""
    powers = grid.cells ** np.arange(grid.dim)
    cells = classes[..., None] // powers % grid.cells
    columns = []
    for i in range(grid.tokens):
        column = np.array(after.base[i], dtype=np.int64)[None]
        for r in range(grid.dim):
            column = column + np.array(after.cells[i][r], dtype=np.int64)[cells[:, i, r]]
        columns.append(column)
    return np.stack(columns, axis=1)


def _attention(layer: Attention, stream: Integers, unit: Fraction) -> Integers:
    """Carry out a hard-max layer of heads of size one: by the sign of the query, the columns with the
    largest key, with the smallest, or all, are averaged.
    """
    if layer.selection.rule is not Rule.HARD_MAX:
        raise CertificationError("only a hard maximum can be followed exactly")
    growth = 1 + sum(
        sum(abs(v) for v in head.value.entries.values()) for head in layer.heads
    ) * len(stream[0])
    stream = _widened(stream, growth)
    result = stream.copy()
    for head in layer.heads:
        if head.query.rows != 1 or head.key.rows != 1:
            raise CertificationError("a head is not of size one")
        bias = head.bias[0, 0] / unit if isinstance(head, BiasedHead) else Fraction(0)
        scale = bias.denominator
        query = _times(stream, head.query, Fraction(1)) * scale + bias.numerator
        key = _times(stream, head.key, Fraction(1))
        largest = key == key.max(axis=1, keepdims=True)
        smallest = key == key.min(axis=1, keepdims=True)
        cases = (query > 0, largest), (query < 0, smallest), (query == 0, np.ones_like(largest))
        for row in head.value.by_row:
            values = _times(stream, _row(head.value, row), Fraction(1))
            for turn, chosen in cases:
                if turn.any():
                    result[..., row] += np.where(turn, _mean(values, chosen, turn), 0)
    return result


def _mean(values: Integers, chosen: NDArray[np.bool_], turn: NDArray[np.bool_]) -> Integers:
    total = np.where(chosen, values, 0).sum(axis=1, keepdims=True)
    count = chosen.sum(axis=1, keepdims=True)
    if ((total % count != 0) & turn).any():
        raise CertificationError("attention averages unequal columns: a code is no integer")
    mean: Integers = total // count
    return mean


def _look_up(lookup: Lookup, stream: Integers) -> Integers:
    found = _times(stream, lookup.read, Fraction(1))
    keys = np.array(sorted(lookup.columns), dtype=found.dtype)
    place = np.searchsorted(keys, found).clip(max=len(keys) - 1)
    hit = keys[place] == found
    entries = [v for column in lookup.columns.values() for v in column.values()]
    entries += lookup.rest.values()
    result = _widened(
        stream, 1 + sum(map(abs, lookup.rest.values())) + max(map(abs, entries))
    ).copy()
    rows = {row for column in lookup.columns.values() for row in column}
    for row in rows:
        added = np.array(
            [_whole(lookup.columns[int(key)].get(row, Fraction(0))) for key in keys],
            dtype=result.dtype,
        )
        result[..., row] += np.where(hit, added[place], 0)
    for row, value in lookup.rest.items():
        result[..., row] += _whole(value)
    return result


def read_lookup(part: object, unit: Fraction) -> Lookup:
    """Read units that fire at one integer each; raise where a part is anything else.

    Units that act one after another may be read so as well where what they write is not what they
    read; where it is, the caller has to show that no unit fires at another's result.
    """
    units = part.units if isinstance(part, Successive) else part
    if not isinstance(units, PiecewiseFeedForward):
        raise CertificationError("a look-up has piecewise-linear units")
    low, high = (*units.activation.breaks, Fraction(0), Fraction(0))[:2]
    zero, one = (Fraction(0), Fraction(0)), (Fraction(0), Fraction(1))
    if units.activation.pieces != (zero, one, zero) or not -unit < low <= 0 < high <= unit:
        raise CertificationError("the units of a look-up do not fire at single integers")
    first = units.w1.by_row.get(0)
    if first is None or any(units.w1.by_row.get(m) != first for m in range(units.w1.rows)):
        raise CertificationError("the units of a look-up do not read the same")
    columns: dict[int, dict[int, Fraction]] = {}
    for m in range(units.w1.rows):
        key = _whole(-units.b1[m, 0] / unit)
        if key in columns:
            raise IdentityError(f"two units fire at the key {key}")
        columns[key] = {row: v / unit for row, v in units.w2.by_column.get(m, ())}
    read = Matrix(1, units.w1.columns, {(0, r): v for r, v in first})
    return Lookup(read, columns, {row: v / unit for row, _, v in units.b2})


def _check_distinct(grid: Grid, classes: Integers, codes: Integers) -> None:
    """Codes tell tokens in context apart: equal only for equal columns of one class.

    Classes without a value need no codes of their own; that they have no key is seen later.
    """
    if not (grid.positional or grid.repeats):
        valued = (classes[:, 1:] != classes[:, :-1]).all(axis=1)
        classes, codes = classes[valued], codes[valued]
    number, token = np.indices(codes.shape)
    columns = classes if not grid.positional else token
    flat = codes.ravel()
    order = np.argsort(flat, kind="stable")
    same = flat[order][1:] == flat[order][:-1]
    for name in (number, columns):
        row = name.ravel()[order]
        wrong = np.flatnonzero(same & (row[1:] != row[:-1]))
        if len(wrong):
            first, second = (divmod(int(order[wrong[0] + k]), grid.tokens) for k in (0, 1))
            raise IdentityError(
                f"token {first[1] + 1} of class {tuple(classes[first[0]].tolist())} and token "
                f"{second[1] + 1} of {tuple(classes[second[0]].tolist())} have the same code"
            )


def _compare(
    blueprint: SequenceBlueprint,
    table: GridTable,
    values: Lookup,
    unit: Fraction,
    classes: Integers,
    stream: Integers,
    codes: Integers,
) -> None:
    """Compare what the value layers make of every class with the table, exactly."""
    grid = table.grid
    nothing: Columns = ((Fraction(0),) * grid.dim,) * grid.tokens
    rows = {row for column in values.columns.values() for row in column}
    in_place = not rows.isdisjoint(r for _, r, _ in values.read)
    reject = [x for s in blueprint.stages if s.name == "reject" for x in s.layers()]
    margin = min(values.columns) - Fraction(1, 2)
    for ids, columns, named in zip(classes.tolist(), stream.tolist(), codes.tolist(), strict=True):
        expected = table.values.get(tuple(ids), nothing)
        for j, (column, code) in enumerate(zip(columns, named, strict=True)):
            current = [v * unit for v in column]
            if reject:
                for layer in reject:
                    current = apply_layer(layer, [current])[0]
                code = sum((v * current[r] for _, r, v in blueprint.code), Fraction(0))
            result = list(current)
            for row, value in values.columns.get(int(code), {}).items():
                result[row] += value * unit
            if in_place and abs(_read(values.read, result)) >= margin * unit:
                raise CertificationError(
                    f"class {tuple(ids)}: a later value layer may take the value of token {j + 1} "
                    "for a key"
                )
            output = [_read(_row(blueprint.readout, r), result) for r in range(grid.dim)]
            if tuple(output) != expected[j]:
                raise IdentityError(_difference(tuple(ids), j, output, expected[j]))


def _read(matrix: Matrix, column: list[Fraction]) -> Fraction:
    return sum((v * column[r] for _, r, v in matrix), Fraction(0))


def _difference(ids: Class, j: int, output: list[Fraction], expected: tuple[Fraction, ...]) -> str:
    got, wanted = ([float(v) for v in column] for column in (output, expected))
    return f"class {ids}: token {j + 1} comes out as {got}, the table has {wanted}"


def _times(stream: Integers, matrix: Matrix, unit: Fraction) -> Integers:
    """Return matrix·z·unit of every token for a matrix of one row, integers throughout."""
    wide = _widened(stream, sum((abs(v * unit) for _, _, v in matrix), Fraction(1)))
    total = np.zeros(stream.shape[:-1], dtype=wide.dtype)
    for _, r, value in matrix:
        total = total + _whole(value * unit) * wide[..., r]
    return total


def _widened(stream: Integers, growth: Fraction | int) -> Integers:
    """Return the stream in a type that holds ``growth`` times its largest entry."""
    if stream.dtype == object:
        return stream
    largest = int(np.abs(stream).max(initial=1))
    return stream if largest * growth < _SAFE else stream.astype(object)


def _row(matrix: Matrix, row: int) -> Matrix:
    return Matrix(1, matrix.columns, {(0, j): v for j, v in matrix.by_row.get(row, ())})


def _scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    return Matrix.of(
        matrix.rows, matrix.columns, {p: v * factor for p, v in matrix.entries.items()}
    )


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise CertificationError(f"{value} should be an integer")
    return value.numerator
