"""Tables from files: numbers only, nothing missing, or an error that names the place."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from exactformer.errors import FileFormatError, InputError, SizeError

if TYPE_CHECKING:
    import pandas as pd


_MOST_COLUMNS = 100_000
_LONGEST_HEADER = 2**24


@dataclass(frozen=True)
class Table:
    """The columns to learn from and the one to predict."""

    features: pd.DataFrame
    target: pd.Series[float]


def read_table(
    path: Path, target: str, columns: list[str] | None = None, most: int = _MOST_COLUMNS
) -> Table:
    """Read CSV (any of , ; tab between cells) or Parquet; ``columns`` are all others by default.

    More than ``most`` columns to learn from are refused.
    """
    frame = _read(path, most if columns is None else _MOST_COLUMNS)
    names = [str(n) for n in frame.columns]
    frame.columns = names
    known = set(names)
    for name in [target, *(columns or [])]:
        if name not in known:
            raise InputError(f"{path} has no column {name!r}; it has {_listed(names)}")
    chosen = columns or [n for n in names if n != target]
    _limit(path, len(chosen), most)
    if target in chosen:
        raise InputError(f"the target {target!r} cannot be one of the columns to learn from")
    if not chosen:
        raise InputError(f"{path} has no column besides the target {target!r} to learn from")
    if len(frame) < 2:
        raise InputError(f"{path} has {len(frame)} row(s); a law needs at least two")
    clean = {name: _numbers(frame[name], name, path) for name in [*chosen, target]}
    return Table(type(frame)({n: clean[n] for n in chosen}), clean[target])


def _limit(path: Path, count: int, most: int) -> None:
    if count > most:
        raise SizeError(
            f"{path} has {count:,} columns to learn from, the limit is {most:,}; choose some with "
            "--columns"
        )


def _read(path: Path, most: int) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise FileFormatError(f"{path} is not a file")
    if path.suffix.lower() in {".parquet", ".pq"}:
        try:
            return pd.read_parquet(path)
        except ImportError:
            raise InputError(
                f'reading {path} needs pyarrow: pip install "exactformer[parquet]", or save it as CSV'
            ) from None
        except Exception as error:
            raise FileFormatError(f"{path} is not a Parquet file: {error}") from error
    try:
        return pd.read_csv(path, sep=_header_separator(path, most))
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not a CSV table: {error}") from error


def separator(line: str) -> str | None:
    """Return the most frequent of comma, semicolon and tab in a line; None if it has none of them."""
    best = max((",", ";", "\t"), key=line.count)
    return best if best in line else None


def _header_separator(path: Path, most: int) -> str:
    """Return what separates the cells of the header; refuse one that is too long or repeats a name."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(_LONGEST_HEADER + 1)
    if len(header) > _LONGEST_HEADER:
        raise SizeError(
            f"{path}: the header has more than {_LONGEST_HEADER:,} characters; write fewer columns"
        )
    cells = separator(header) or ","
    names = [n.strip() for n in next(csv.reader([header], delimiter=cells), [])]
    _limit(path, len(names) - 1, most)
    if repeated := sorted(n for n, times in Counter(names).items() if times > 1):
        raise InputError(f"{path}: columns need different names; repeated: {_listed(repeated)}")
    return cells


def _numbers(column: pd.Series[float], name: str, path: Path) -> pd.Series[float]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if column.dtype.kind not in "biuf" and (wrong := numbers.isna() & column.notna()).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{path}: column {name!r} is not numeric; row {row + 1} has {column.iloc[row]!r}. "
            "Leave the column out with --columns, or encode it as numbers"
        )
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    for bad, what in ((np.isnan(values), "missing"), (np.isinf(values), "infinite")):
        if bad.any():
            raise InputError(
                f"{path}: column {name!r} has {int(bad.sum())} {what} value(s), the first in row "
                f"{int(np.flatnonzero(bad)[0]) + 1}. Remove those rows or fill them in"
            )
    return pd.Series(values, index=column.index)


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
