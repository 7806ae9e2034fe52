"""Folders of tables as blocks: CSV or Parquet files, read once and kept on disk as plain numbers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.errors import FileFormatError, InputError, SizeError, needs
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.streamed.blocks import Blocks, BlockWriter
from exactformer.learning.laws.tables import (
    PARQUET,
    Table,
    Wanted,
    chosen_columns,
    csv_options,
    first_line,
    listed,
    numeric,
)
from exactformer.progress import progress

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 2**16
# Rows that are kept in memory to look at: pictures and histograms are drawn from them.
_SHOWN = 20_000


def is_large(path: Path, limit: int) -> bool:
    """Return whether a table is a folder, or a file of more than ``limit`` bytes of numbers."""
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    if path.suffix.lower() not in PARQUET:
        return path.stat().st_size > limit
    try:
        from pyarrow.parquet import ParquetFile

        about = ParquetFile(path).metadata
    except Exception:  # not installed, or not Parquet: reading it in memory says so
        return False
    return bool(8 * about.num_rows * about.num_columns > limit)


@contextmanager
def large_table(path: Path, wanted: Wanted, verbose: bool) -> Iterator[tuple[Blocks, Table]]:
    """Read all tables of a folder, in the order of their names.

    The context has all rows as blocks, which last as long as it does, and some of them, evenly
    spaced, as a table. The numbers are stored once more in the temporary folder (TMPDIR), eight
    bytes each.
    """
    files = _files(path)
    first = next(_chunks(files[0], wanted), None)
    if first is None:
        raise InputError(f"{files[0]} has no rows")
    features, notes = chosen_columns(str(path), list(first.columns), wanted)
    columns = [*features, *wanted.targets]
    sample, dropped = _Thinned(), 0
    with TemporaryDirectory(prefix="exactformer-") as folder:
        writer = BlockWriter(Path(folder), len(features), len(wanted.targets))
        sizes = [file.stat().st_size for file in files]
        with progress("reading", sum(sizes), verbose, unit="bytes", lines=True) as update:
            for place, file in enumerate(files):
                for numbers in _numbers(file, columns, wanted):
                    whole = ~np.isnan(numbers).any(axis=1)
                    dropped += len(numbers) - int(whole.sum())
                    _write(writer, numbers[whole])
                    sample.take(numbers[whole])
                    update(sum(sizes[:place]), f"{writer.rows:,} rows")
                update(sum(sizes[: place + 1]), f"{writer.rows:,} rows")
        if dropped:
            total = writer.rows + dropped
            notes.append(f"{dropped:,} of {total:,} rows have a missing value and are left out")
        if writer.rows < 2:
            raise InputError(f"{path} has {writer.rows} row(s) to learn from; a law needs two")
        frame = type(first)(sample.rows(), columns=columns)
        some = Table(frame[features], frame[list(wanted.targets)], tuple(notes))
        yield writer.finished(verbose), some


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
    kinds = {p.suffix.lower() in PARQUET for p in found}
    if not found:
        raise FileFormatError(f"{path} has no files; give a folder of CSV or Parquet files")
    if len(kinds) > 1 or not all(p.suffix.lower() in {*PARQUET, ".csv", ".tsv"} for p in found):
        others = [p.name for p in found]
        raise FileFormatError(
            f"{path} must hold either CSV or Parquet files and nothing else; it has {listed(others)}"
        )
    return found


def _chunks(file: Path, wanted: Wanted) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, some at a time."""
    import pandas as pd

    if file.suffix.lower() in PARQUET:
        with needs("parquet", f"reading {file}"):
            from pyarrow.parquet import ParquetFile
        try:
            for batch in ParquetFile(file).iter_batches(_CHUNK):
                yield batch.to_pandas()
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{file} is not a Parquet file: {error}") from error
        return
    options = csv_options(str(file), first_line(file, str(file)), wanted)
    try:
        with pd.read_csv(file, chunksize=_CHUNK, **options) as reader:
            for chunk in reader:
                chunk.columns = [str(name).strip() for name in chunk.columns]
                yield chunk
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{file} is not a CSV table: {error}") from error


def _numbers(file: Path, columns: list[str], wanted: Wanted) -> Iterator[Array]:
    """Yield the numbers of the wanted columns; NaN only where rows with it are to be dropped."""
    start = 0
    for chunk in _chunks(file, wanted):
        if absent := [name for name in columns if name not in chunk.columns]:
            raise InputError(
                f"{file} has no column {absent[0]!r}; it has {listed(list(chunk.columns))}"
            )
        parts: list[Any] = [
            numeric(chunk[name], name, str(file), wanted.missing, start) for name in columns
        ]
        start += len(chunk)
        yield np.column_stack(parts)


def _write(writer: BlockWriter, numbers: Array) -> None:
    try:
        writer.write(numbers)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise SizeError(
            f"the temporary folder is full after {writer.rows:,} rows; set TMPDIR to a larger disk"
        ) from None


class _Thinned:
    """Every k-th row of a stream, with k doubled whenever there are too many."""

    def __init__(self) -> None:
        self._pieces: list[Array] = []
        self._stride, self._seen, self._held = 1, 0, 0

    def take(self, numbers: Array) -> None:
        kept = numbers[-self._seen % self._stride :: self._stride]
        self._seen += len(numbers)
        self._pieces.append(kept)
        self._held += len(kept)
        if self._held > 2 * _SHOWN:
            self._pieces = [self.rows()[::2]]
            self._held, self._stride = len(self._pieces[0]), 2 * self._stride

    def rows(self) -> Array:
        """Return the rows that were kept."""
        return np.concatenate(self._pieces)
