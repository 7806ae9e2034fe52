"""Points from CSV or NPY, by NumPy, with the line or row of every one of them.

The kind is read from the contents. Cells that are not numbers make a CSV header; its names may stand
in any order.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exactformer.core.archives import read_header
from exactformer.core.words import plural, readable
from exactformer.errors import FileFormatError, InputError, SizeError

BATCH = 4096
"""Points that are evaluated at once."""
LARGEST = 2**32
"""Bytes of a table."""


@dataclass(frozen=True)
class Points:
    """Points ``(N, d)``, coordinates in the model's order, and their places, counted from 1."""

    name: str
    unit: str
    """What ``places`` count: ``line`` or ``row``."""
    has_header: bool
    points: NDArray[np.float64]
    places: Sequence[int]


def read_points(source: Path | None, variables: Sequence[str], ignore_extra: bool) -> Points:
    """Read a file, or standard input for ``None``."""
    name = "standard input" if source is None else str(source)
    if source is not None and not source.is_file() and not source.is_fifo():
        raise FileFormatError(f"{name} does not exist or is not a file")
    with sys.stdin.buffer if source is None else source.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise SizeError(f"{name} has more than {readable(LARGEST)}; give it in parts")
    read = _array if content.startswith(b"\x93NUMPY") else _table
    return read(content, name, tuple(variables), ignore_extra)


def _array(content: bytes, name: str, variables: tuple[str, ...], _: bool) -> Points:
    stream, d = io.BytesIO(content), len(variables)
    try:
        shape, columns_first, dtype = read_header(stream)
    except (ValueError, EOFError, OSError) as error:
        raise FileFormatError(f"{name} is not a complete NPY file of numbers: {error}") from None
    if dtype.kind not in "iuf":
        raise InputError(f"{name} holds {dtype}; points must be real numbers")
    if len(shape) == 1:
        shape = (shape[0], 1) if d == 1 else (1, shape[0])
    if len(shape) != 2 or shape[1] != d:
        raise InputError(f"{name} has shape {shape}; points need {d} columns ({_few(variables)})")
    if stream.tell() + math.prod(shape) * dtype.itemsize > len(content):
        raise FileFormatError(f"{name} is not a complete NPY file of numbers: it ends too soon")
    numbers = np.frombuffer(content, dtype, math.prod(shape), stream.tell())
    points = numbers.reshape(shape, order="F" if columns_first else "C").astype(np.float64)
    for i, j in np.argwhere(~np.isfinite(points))[:1].tolist():
        what = f"column {j + 1} ({variables[j]}): {points[i, j]} is not a finite number"
        raise InputError(f"{name}, row {i + 1}, {what}")
    return Points(name, "row", False, points, range(1, len(points) + 1))


def _table(content: bytes, name: str, variables: tuple[str, ...], ignore_extra: bool) -> Points:
    try:
        lines = re.split("\r\n|\r|\n", content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise FileFormatError(f"{name}: this is neither UTF-8 text nor an NPY file") from None
    places = [place for place, line in enumerate(lines, start=1) if line.strip()]
    if not places:
        raise InputError(f"{name} is empty; give one row per line, {len(variables)} numbers each")
    mark = max(",;\t", key=lines[places[0] - 1].count)
    separator = mark if mark in lines[places[0] - 1] else None
    first = _cells(lines[places[0] - 1], separator)
    order, width = list(range(len(variables))), len(variables)
    if has_header := bool({*first} & {*variables} or np.isnan([*map(_number, first)]).all()):
        order, width, places = _order(name, first, variables, ignore_extra), len(first), places[1:]
    points = np.empty((len(places), len(variables)))
    for row, place in zip(points, places, strict=True):
        cells, where = _cells(lines[place - 1], separator), f"{name}, line {place}"
        if len(cells) != width:
            need = f"{width} are needed ({_few(first if has_header else variables)})"
            raise InputError(f"{where}: {plural(len(cells), 'cell')} where {need}")
        row[:] = [_number(cells[j]) for j in order]
        for k in np.flatnonzero(~np.isfinite(row))[:1].tolist():
            what = f"{cells[order[k]][:40]!r} is not a finite number"
            raise InputError(f"{where}, column {order[k] + 1} ({variables[k]}): {what}")
    return Points(name, "line", has_header, points, places)


def _order(name: str, header: list[str], variables: tuple[str, ...], extra: bool) -> list[int]:
    """Return the column of each variable."""
    column, known = {cell: place for place, cell in enumerate(header)}, set(variables)
    if repeated := sorted(cell for cell, times in Counter(header).items() if times > 1):
        raise InputError(f"{name}: the header repeats {_few(repeated)}")
    if missing := [v for v in variables if v not in column]:
        told = f"the header has {_few(header)}, the model needs {_few(variables)}"
        raise InputError(f"{name}: no column is named {_few(missing)}; {told}")
    if (others := [c for c in header if c not in known]) and not extra:
        told = f"{_few(others)} is not a variable of the model ({_few(variables)})"
        raise InputError(f"{name}: {told}; --ignore-extra leaves such columns out")
    return [column[v] for v in variables]


def _cells(line: str, separator: str | None) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=separator)) if separator else line.split()
    except csv.Error as error:
        raise FileFormatError(f"a line of the table cannot be read: {error}") from None
    return [cell.strip() for cell in cells]


def _number(cell: str) -> float:
    """Return NaN for what is no number; 1_000, which Python reads, is more likely damage."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return ", ".join(name[:60] for name in names[:12]) + more
