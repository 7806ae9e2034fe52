"""Tables from files and pipes: numbers only, nothing missing, or an error that names the place."""

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.options import choose
from exactformer.core.words import readable
from exactformer.errors import FileFormatError, InputError, SizeError

if TYPE_CHECKING:
    import pandas as pd


MOST_COLUMNS = 100_000
PARQUET = {".parquet", ".pq"}
MISSING = ("raise", "drop")
_LONGEST_HEADER = 2**24
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_PARQUET_MAGIC = b"PAR1"
# What pandas and pyarrow call a column of row labels that has no name of its own.
_UNNAMED = re.compile(r"|Unnamed: [0-9]+|__index_level_[0-9]+__")


@dataclass(frozen=True)
class Table:
    """The columns to learn from, those to predict, and what was noticed on the way."""

    features: pd.DataFrame
    targets: pd.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What to take from a table.

    ``names`` are those of all columns where the first line holds numbers, not names. ``missing`` is
    what to do with rows in which a value is missing: "raise" or "drop".
    """

    targets: Sequence[str]
    columns: Sequence[str] | None = None
    names: Sequence[str] | None = None
    missing: str = "raise"
    most: int = MOST_COLUMNS

    def __post_init__(self) -> None:
        choose("missing", self.missing, MISSING)
        if not self.targets:
            raise InputError("--target names no column; give one, or several with commas")
        for option, given in (
            ("--target", self.targets),
            ("--columns", self.columns or []),
            ("--names", self.names or []),
        ):
            if len(set(given)) < len(given):
                raise InputError(f"{option} has a name twice: {', '.join(given)}")


def read_table(path: Path, wanted: Wanted, memory_limit: int = 2**62) -> Table:
    """Read CSV (any of , ; tab between cells) or Parquet, or standard input for ``-``."""
    name, frame = _read(path, wanted, memory_limit)
    features, notes = _chosen_columns(name, list(frame.columns), wanted)
    if len(frame) < 2:
        raise InputError(f"{name} has {len(frame)} row(s); a law needs at least two")
    values = {
        column: _numeric(frame[column], column, name, wanted.missing)
        for column in (*features, *wanted.targets)
    }
    whole = type(frame)(values)
    if count := int((absent := whole.isna().any(axis=1)).sum()):
        whole = whole[~absent].reset_index(drop=True)
        notes.append(f"{count:,} of {len(frame):,} rows have a missing value and are left out")
        if len(whole) < 2:
            raise InputError(f"{name} has {len(whole)} row(s) without a missing value")
    notes += [
        f"column {column!r} counts the rows; if it is only their number, leave it out with --columns"
        for column in features
        if wanted.columns is None and counts_rows(whole[column].to_numpy())
    ]
    return Table(whole[features], whole[list(wanted.targets)], tuple(notes))


def _chosen_columns(
    name: str, present: Sequence[str], wanted: Wanted
) -> tuple[list[str], list[str]]:
    """Return the columns to learn from, with notes; raise where a wanted one is not there."""
    known = set(present)
    for column in [*wanted.targets, *(wanted.columns or [])]:
        if column not in known:
            raise InputError(f"{name} has no column {column!r}; it has {listed(present)}")
    notes = []
    features = list(wanted.columns or [n for n in present if n not in wanted.targets])
    if wanted.columns is None and (labels := [n for n in features if _UNNAMED.fullmatch(n)]):
        features = [n for n in features if n not in labels]
        notes.append(
            f"{len(labels)} column(s) without a name ({listed(labels)}) taken for row labels and "
            "left out; --columns takes them in"
        )
    _limit(name, len(features), wanted.most)
    if both := [n for n in wanted.targets if n in features]:
        raise InputError(f"the target {both[0]!r} cannot be one of the columns to learn from")
    if not features:
        shown = listed(wanted.targets)
        raise InputError(f"{name} has no column besides the target {shown!r} to learn from")
    return features, notes


def counts_rows(values: Any) -> bool:
    """Return whether values are 0, 1, 2, … or 1, 2, 3, …, as row labels are.

    >>> counts_rows(np.array([1.0, 2.0, 3.0])), counts_rows(np.array([0.0, 2.0, 4.0]))
    (True, False)
    """
    count = len(values)
    ends = count > 2 and values[0] in (0, 1) and values[-1] - values[0] == count - 1
    return bool(ends and (np.diff(values) == 1).all())


def _limit(name: str, count: int, most: int) -> None:
    if count > most:
        raise SizeError(
            f"{name} has {count:,} columns to learn from, the limit is {most:,}; choose some with "
            "--columns"
        )


def _read(path: Path, wanted: Wanted, memory_limit: int) -> tuple[str, pd.DataFrame]:
    import pandas as pd

    source: Any
    if str(path) == "-":
        name, source = "standard input", _piped(memory_limit)
        is_parquet = source.getvalue()[:4] == _PARQUET_MAGIC
    elif not path.is_file():
        raise FileFormatError(f"{path} is not a file; give one table, CSV or Parquet")
    else:
        _check_bytes(path, memory_limit)
        name, source, is_parquet = str(path), path, path.suffix.lower() in PARQUET
    if is_parquet:
        try:
            frame = pd.read_parquet(source)
        except ImportError:
            raise InputError(
                f'reading {name} needs pyarrow: pip install "exactformer[parquet]", or save it as CSV'
            ) from None
        except Exception as error:
            raise FileFormatError(f"{name} is not a Parquet file: {error}") from error
    else:
        first = _first_line(source, name)
        try:
            frame = pd.read_csv(source, **_csv_options(name, first, wanted))
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise FileFormatError(f"{name} is not a CSV table: {error}") from error
    frame.columns = [str(n).strip() for n in frame.columns]
    return name, frame


def _check_bytes(path: Path, limit: int) -> None:
    """Refuse a file larger than the limit, with the line that takes a part of its rows."""
    if (size := path.stat().st_size) <= limit:
        return
    share = 10.0 ** math.floor(math.log10(limit / size))
    if path.suffix.lower() in PARQUET:
        part, parts = (
            "part.to_pandas()",
            f"pyarrow.parquet.ParquetFile({str(path)!r}).iter_batches()",
        )
    else:
        cells = _separator(_first_line(path, str(path))) or ","
        part, parts = "part", f"pandas.read_csv({str(path)!r}, sep={cells!r}, chunksize=10**6)"
    sample = f"{part}.sample(frac={share:g}, random_state=0)"
    raise SizeError(
        f"{path} has {readable(size)}, the limit is {readable(limit)}. A law is no better known from "
        "more rows than fit in memory: sample the rows, "
        f"pandas.concat({sample} for part in {parts}).to_csv('sample.csv', index=False), "
        "or raise --memory-limit"
    )


def _piped(limit: int) -> io.BytesIO:
    content = sys.stdin.buffer.read(limit + 1)
    if len(content) > limit:
        raise SizeError(
            f"standard input has more than {readable(limit)}; sample the rows, such as one in "
            "a hundred by awk 'NR % 100 == 1', or raise --memory-limit"
        )
    return io.BytesIO(content)


def _separator(line: str) -> str | None:
    """Return the most frequent of comma, semicolon and tab in a line; None if it has none of them."""
    best = max((",", ";", "\t"), key=line.count)
    return best if best in line else None


def _first_line(source: Any, name: str) -> str:
    """Return the first line of a file or of a buffer in memory."""
    stream = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue())
    with stream as file:
        content = file.readline(4 * _LONGEST_HEADER + 1)
    if content.startswith(_COMPRESSED):
        raise FileFormatError(
            f"{name} is compressed, or a workbook; unpack it or save it as CSV, or pipe what zcat "
            "prints to exactformer fit -"
        )
    line = content.decode("utf-8-sig", errors="replace").partition("\r")[0]
    if len(line) > _LONGEST_HEADER:
        raise SizeError(
            f"{name}: the header has more than {_LONGEST_HEADER:,} characters; write fewer columns"
        )
    return str(line)


def _csv_options(name: str, first: str, wanted: Wanted) -> dict[str, Any]:
    """Return how pandas is to read a CSV table with this first line; refuse what cannot be a header."""
    cells = _separator(first) or ","
    names = [n.strip() for n in next(csv.reader([first], delimiter=cells), [])]
    _limit(name, len(names) - 1, wanted.most if wanted.columns is None else MOST_COLUMNS)
    if wanted.names is not None:
        if len(wanted.names) != len(names):
            raise InputError(
                f"--names has {len(wanted.names)} names, the first line of {name} {len(names)} cells"
            )
        return {"sep": cells, "header": None, "names": list(wanted.names)}
    # pandas calls columns 0, 1, 2 … where they have no names, and writes that as a header.
    if all(map(_is_number, names)) and names != [str(k) for k in range(len(names))]:
        raise InputError(
            f"{name} has no header: its first line is {listed(names)}. Name the columns with "
            "--names, or in a line before it"
        )
    if repeated := sorted(n for n, times in Counter(names).items() if times > 1 and n):
        raise InputError(f"{name}: columns need different names; repeated: {listed(repeated)}")
    return {"sep": cells}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numeric(column: pd.Series[float], name: str, table: str, missing: str) -> NDArray[np.float64]:
    """Return float64; text and infinities are refused, and missing values unless they are dropped."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if column.dtype.kind not in "biuf" and (wrong := numbers.isna() & column.notna()).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{table}: column {name!r} is not numeric; row {row + 1} has "
            f"{column.iloc[row]!r}. Leave the column out with --columns, or encode it as numbers"
        )
    if (largest := beyond_floats(numbers.to_numpy())) is not None:
        raise InputError(
            f"{table}: column {name!r} has integers up to {largest}, and beyond 2^53 floats do not "
            "hold every integer. Leave the column out with --columns, or subtract an origin"
        )
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    kinds = [(np.isinf(values), "infinite", "")]
    if missing == "raise":
        kinds.append((np.isnan(values), "missing", ", or leave them out with --missing drop"))
    for bad, what, way_out in kinds:
        if bad.any():
            raise InputError(
                f"{table}: column {name!r} has {int(bad.sum())} {what} value(s), the first in row "
                f"{int(np.flatnonzero(bad)[0]) + 1}. Remove those rows or fill them in{way_out}"
            )
    return np.asarray(values)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return names with commas between, the first ``most`` of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def beyond_floats(values: NDArray[Any]) -> int | None:
    """Return the largest of some integers if not all of them are floats."""
    kind = values.dtype.kind
    if not values.size or not (
        kind in "iu" or (kind == "O" and {*map(type, values.ravel())} == {int})
    ):
        return None
    ends = int(values.min()), int(values.max())
    if max(map(abs, ends)) <= 2**53:
        return None
    exact = values.astype(object).ravel()
    as_floats = all(int(one) == two for one, two in zip(map(float, exact), exact, strict=True))
    return None if as_floats else max(ends, key=abs)
