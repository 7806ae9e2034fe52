"""Points from CSV or NPY, a batch at a time, with the place of every one of them; values to both.

The kind is read from the contents, not from the file's name. A CSV header is recognised by its cells
not being numbers; its names may stand in any order. Values have digits that read back to the same
float, and files of them are whole or not there at all.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from exactformer.core.archives import read_header
from exactformer.core.whole_files import whole_file
from exactformer.core.words import plural
from exactformer.errors import FileFormatError, InputError, SizeError
from exactformer.learning.laws.tables import separator

BATCH = 4096
CELLS = 2**22
"""Cells of a table that are held at once: a batch of wide rows has fewer of them."""
LONGEST = 2**26
"""Bytes of a line of a table."""
_NPY_MAGIC = b"\x93NUMPY"

Write = Callable[[NDArray[Any]], None]


@dataclass(frozen=True)
class Batch:
    """Some points ``(k, d)``, float64, coordinates in the model's order."""

    points: NDArray[np.float64]
    places: Sequence[int]
    """Line or row of each point, counted from 1."""
    progress: int
    """How much of ``Points.total`` has been read when this batch is complete."""


@dataclass(frozen=True)
class Points:
    """Where points come from."""

    name: str
    unit: str
    """What ``places`` count: ``line`` or ``row``."""
    has_header: bool
    total: int | None
    """Bytes or rows in all, where known."""
    batches: Iterator[Batch]


@contextmanager
def open_points(
    source: Path | None, variables: Sequence[str], ignore_extra: bool
) -> Iterator[Points]:
    """Open a file, or standard input for ``None``."""
    if source is None:
        yield _sniff(sys.stdin.buffer, "standard input", None, variables, ignore_extra)
        return
    if not source.is_file() and not source.is_fifo():
        raise FileFormatError(f"{source} does not exist or is not a file")
    total = source.stat().st_size if source.is_file() else None
    with source.open("rb") as stream:
        yield _sniff(stream, str(source), total, variables, ignore_extra)


def _sniff(
    stream: BinaryIO, name: str, total: int | None, variables: Sequence[str], ignore_extra: bool
) -> Points:
    start = stream.read(len(_NPY_MAGIC))
    if start == _NPY_MAGIC:
        return _npy(_Rejoined(start, stream), name, total, variables)
    if not start:
        raise InputError(f"{name} is empty; give one row per line, {len(variables)} numbers each")
    opening = (start + stream.readline(LONGEST)).splitlines(keepends=True)
    lines = chain(opening, iter(lambda: stream.readline(LONGEST + 1), b""))
    return _Table(name, lines, variables, ignore_extra).points(total)


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes have been read already."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start, self._stream = start, stream

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, fewer only at the end of the stream."""
        taken, self._start = self._start[:size], self._start[size:]
        pieces, missing = [taken], size - len(taken)
        while missing:
            piece = self._stream.read(min(missing, 2**24))
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)


def _npy(stream: _Rejoined, name: str, total: int | None, variables: Sequence[str]) -> Points:
    """Read the header, and refuse by it; rows are read when they are needed."""
    d = len(variables)
    try:
        shape, columns_first, dtype = read_header(stream)  # type: ignore[arg-type]
    except (ValueError, EOFError, OSError) as error:
        raise FileFormatError(f"{name} is not a complete NPY file of numbers: {error}") from None
    if dtype.kind not in "iuf":
        raise InputError(f"{name} holds {dtype}; points must be real numbers")
    if len(shape) == 1:
        columns_first, shape = False, ((shape[0], 1) if d == 1 else (1, shape[0]))
    if len(shape) != 2 or shape[1] != d:
        raise InputError(
            f"{name} has shape {shape}; points need {d} columns ({', '.join(variables)})"
        )
    size = shape[0] * d * dtype.itemsize
    if total is not None and size > total:
        raise FileFormatError(
            f"{name} is not a complete NPY file of numbers: {shape[0]:,} points of {dtype} take "
            f"{size:,} bytes, the file has {total:,}"
        )
    batches = _array_batches(stream, shape[0], dtype, columns_first, name, variables)
    return Points(name, "row", False, shape[0], batches)


def _array_batches(
    stream: _Rejoined,
    count: int,
    dtype: np.dtype[Any],
    columns_first: bool,
    name: str,
    variables: Sequence[str],
) -> Iterator[Batch]:
    """Yield rows; of an array that is stored column by column, all has to be there first."""
    d = len(variables)
    step = max(1, count) if columns_first else BATCH
    for start in range(0, count, step):
        rows = min(step, count - start)
        content = stream.read(rows * d * dtype.itemsize)
        if len(content) < rows * d * dtype.itemsize:
            raise FileFormatError(f"{name} is not a complete NPY file of numbers: it ends too soon")
        numbers = np.frombuffer(content, dtype=dtype)
        array = numbers.reshape(d, rows).T if columns_first else numbers.reshape(rows, d)
        for first in range(0, rows, BATCH):
            piece = array[first : first + BATCH].astype(np.float64)
            places = range(start + first + 1, start + first + len(piece) + 1)
            wrong = np.argwhere(~np.isfinite(piece))
            if len(wrong):
                i, j = wrong[0]
                raise InputError(
                    f"{name}, row {places[i]}, column {j + 1} ({variables[j]}): "
                    f"{piece[i, j]} is not a finite number"
                )
            yield Batch(piece, places, places[-1])


class _Table:
    """A CSV table being read."""

    def __init__(
        self, name: str, raw: Iterator[bytes], variables: Sequence[str], ignore_extra: bool
    ) -> None:
        self.name, self.variables, self.ignore_extra = name, tuple(variables), ignore_extra
        self.bytes = self.line = 0
        self.raw = raw
        self.order: list[int] | None = None
        self.columns = len(variables)

    def points(self, total: int | None) -> Points:
        lines = self.decoded()
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            raise InputError(f"{self.name} holds no rows, only blank lines")
        self.separator = separator(first)
        rows = self.rows(chain([first], lines))
        place, cells = next(rows)
        has_header = self.is_header(cells)
        if has_header:
            self.order, self.columns = self.match(cells), len(cells)
        else:
            rows = chain([(place, cells)], rows)
        return Points(self.name, "line", has_header, total, self.batches(rows))

    def decoded(self) -> Iterator[str]:
        for line in self.raw:
            self.line += 1
            self.bytes += len(line)
            if len(line) > LONGEST:
                raise SizeError(
                    f"{self.name}, line {self.line}: more than {LONGEST:,} bytes; write one point "
                    "per line"
                )
            try:
                text = line.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise FileFormatError(
                    f"{self.name}, line {self.line}: this is neither UTF-8 text nor an NPY file"
                ) from None
            yield text

    def rows(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells; only blank lines are no rows, empty cells are a mistake."""
        if self.separator is None:
            yield from ((self.line, line.split()) for line in lines if line.strip())
            return
        try:
            for cells in csv.reader(lines, delimiter=self.separator):
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield self.line, cells
        except csv.Error as error:
            raise FileFormatError(f"{self.name}, line {self.line}: {error}") from None

    def is_header(self, cells: list[str]) -> bool:
        stripped = [cell.strip() for cell in cells]
        if set(stripped) & set(self.variables):
            return True
        return not any(_is_number(cell) for cell in stripped)

    def match(self, cells: list[str]) -> list[int]:
        """Return the column of each variable."""
        header = [cell.strip() for cell in cells]
        places = {name: column for column, name in enumerate(header)}
        known = set(self.variables)
        repeated = sorted(name for name, times in Counter(header).items() if times > 1)
        missing = [v for v in self.variables if v not in places]
        extra = [c for c in header if c not in known]
        if repeated:
            raise InputError(f"{self.name}: the header repeats {_listed(repeated)}")
        if missing:
            raise InputError(
                f"{self.name}: no column is named {_listed(missing)}; the header has "
                f"{_listed(header)}, the model needs {_listed(self.variables)}"
            )
        if extra and not self.ignore_extra:
            raise InputError(
                f"{self.name}: {_listed(extra)} is not a variable of the model "
                f"({_listed(self.variables)}); --ignore-extra leaves such columns out"
            )
        return [places[v] for v in self.variables]

    def batches(self, rows: Iterator[tuple[int, list[str]]]) -> Iterator[Batch]:
        size = max(1, min(BATCH, CELLS // max(1, self.columns)))
        while piece := list(islice(rows, size)):
            yield Batch(self.numbers(piece), [line for line, _ in piece], self.bytes)

    def numbers(self, rows: list[tuple[int, list[str]]]) -> NDArray[np.float64]:
        """Convert all at once, and look for the culprit only where that fails."""
        columns = self.columns
        try:
            if any(len(cells) != columns for _, cells in rows):
                raise ValueError
            chosen = self.order or range(columns)
            values = [float(cells[j]) for _, cells in rows for j in chosen]
            array = np.array(values, dtype=np.float64).reshape(len(rows), len(self.variables))
            plain = not any("_" in cells[j] for _, cells in rows for j in chosen)
            if plain and np.isfinite(array).all():
                return array
        except ValueError:
            pass
        raise self.culprit(rows)

    def culprit(self, rows: list[tuple[int, list[str]]]) -> InputError:
        chosen = self.order or list(range(self.columns))
        for line, cells in rows:
            here = f"{self.name}, line {line}"
            if len(cells) != self.columns:
                return InputError(
                    f"{here}: {plural(len(cells), 'cell')} where {self.columns} are needed "
                    f"({', '.join(self.variables)})"
                )
            for variable, j in zip(self.variables, chosen, strict=True):
                if not _is_number(cells[j]) or not math.isfinite(float(cells[j])):
                    shown = cells[j].strip()[:40]
                    return InputError(
                        f"{here}, column {j + 1} ({variable}): {shown!r} is not a finite number"
                    )
        raise AssertionError("every cell is a finite number")  # pragma: no cover


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(name[:60] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000; a table that has it is more likely damaged


@contextmanager
def values_to(out: Path | None, header: Sequence[str], shape: tuple[int, ...]) -> Iterator[Write]:
    """Give a function that takes values batch by batch; ``None`` is standard output.

    ``header`` names the columns, if they are to be named; ``shape`` is that of one value.
    """
    if out is None:
        yield _csv_writer(sys.stdout, header)
        return
    is_array = out.suffix.lower() == ".npy"
    with whole_file(out, "wb" if is_array else "w") as file:
        if not is_array:
            yield _csv_writer(file, header)
            return
        pieces: list[NDArray[Any]] = []
        yield pieces.append
        np.save(file, np.concatenate(pieces) if pieces else np.empty((0, *shape)))


def _csv_writer(stream: TextIO, header: Sequence[str]) -> Write:
    if header:
        stream.write(",".join(header) + "\n")

    def write(values: NDArray[Any]) -> None:
        # str of a NumPy float is the shortest text that reads back to it, in its own format.
        rows = values.reshape(len(values), -1)
        stream.write("".join(",".join(map(str, row)) + "\n" for row in rows))

    return write
