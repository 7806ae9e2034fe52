"""Tables as they are given, before they are arrays: what numbers alone would no longer show."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.learning.laws.diagnosis import LawWarning
from exactformer.learning.laws.tables import beyond_floats, listed

_DATES = ("m", "M")
# Integers and objects.
_INEXACT = ("i", "u", "O")


def check_inputs(X: Any, **others: Any) -> None:
    """Refuse what arrays of floats would hide.

    That is dates, categories, masked values, integers that floats cannot hold and names that come
    twice. Rows of X and of ``others`` (y, sample_weight) belong together by their place. Where they
    have the same labels in another order, that is a warning.
    """
    for name, given in {"X": X, **others}.items():
        if hasattr(given, "__dask_graph__"):
            raise InputError(
                f"{name} is a Dask collection, and laws are found in memory. Sample the rows of the "
                "table before X and y are taken from it: "
                "table.sample(frac=0.01, random_state=0).compute() for a data frame, "
                "table[::100].compute() for an array"
            )
        if count := _masked(given):
            raise InputError(
                f"{name} has {count:,} masked value(s), and what is under a mask is not data. Leave "
                "those rows out, or fill them in with numbers"
            )
        names = Counter(getattr(given, "columns", ()))
        if repeated := sorted(str(n) for n, times in names.items() if times > 1):
            raise InputError(
                f"columns of {name} need different names; repeated: {listed(repeated)}"
            )
        for where, dtype in _types(name, given):
            if getattr(dtype, "kind", None) in _DATES:
                raise InputError(
                    f"{where} has the type {dtype}: the coefficients would depend on a hidden unit and "
                    "origin. Give numbers, such as (times - times[0]).dt.total_seconds()"
                )
            if str(dtype) == "category":
                raise InputError(
                    f"{where} is categorical, and no power of a category has a meaning. Encode it "
                    "(pandas.get_dummies), or convert it with astype(float) if it is a quantity"
                )
        for where, values in _columns(name, given):
            _check_values(where, values)
    for name, given in others.items():
        if all(hasattr(type(part), "iloc") for part in (X, given)):
            _check_order(X.index, given.index, name)


def check_labels(known: list[Any], X: Any) -> None:
    """Refuse a table whose columns are not those of the fit, in the same order."""
    labels = list(getattr(X, "columns", known))
    if labels != known:
        raise InputError(
            f"X has the columns {listed([*map(str, labels)])}; those of the fit are "
            f"{listed([*map(str, known)])}. Give the same columns in the same order"
        )


def _masked(given: Any) -> int:
    """Return how many values are masked, in an array or in one of a list's rows."""
    rows = given if isinstance(given, list | tuple) else [given]
    masks = [np.ma.getmaskarray(row) for row in rows if isinstance(row, np.ma.MaskedArray)]
    return sum(int(mask.sum()) for mask in masks)


def _check_values(where: str, values: NDArray[Any]) -> None:
    if values.dtype == object and {*map(type, values.ravel())} & {np.datetime64, np.timedelta64}:
        raise InputError(
            f"{where} has dates among its objects: the coefficients would depend on a hidden unit and "
            "origin. Give numbers"
        )
    if (largest := beyond_floats(values)) is not None:
        raise InputError(
            f"{where} has integers up to {largest}, and beyond 2^53 floats do not hold every integer. "
            "Subtract an origin first, or convert them with astype(float) if the last digits do not "
            "matter"
        )


def _check_order(rows: Any, others: Any, name: str) -> None:
    unique = len(rows) == len(others) and rows.is_unique and others.is_unique
    if unique and not rows.equals(others) and rows.difference(others).empty:
        warnings.warn(
            f"X and {name} have the same row labels in a different order. Rows are taken by their "
            f"place; if the labels are right, give {name}.loc[X.index]",
            LawWarning,
            stacklevel=4,
        )


def _columns(name: str, given: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what may hold such values: columns of a data frame, or all of an array or of lists."""
    if isinstance(given, list | tuple):
        with suppress(ValueError):  # lists of different lengths are refused later
            yield name, np.asarray(given)
    for place, (where, dtype) in enumerate(_types(name, given)):
        if getattr(dtype, "kind", None) in _INEXACT:
            yield where, np.asarray(given.iloc[:, place] if hasattr(given, "columns") else given)


def _types(name: str, given: Any) -> Iterator[tuple[str, Any]]:
    """Yield what has a type of its own: the columns of a data frame, or all of an array."""
    by_column: Any = getattr(given, "dtypes", None)
    if hasattr(given, "columns") and hasattr(by_column, "items"):
        yield from ((f"column {column!r} of {name}", dtype) for column, dtype in by_column.items())
    elif hasattr(given, "dtype"):
        yield name, given.dtype
