"""Tables as they are given, before they are arrays: what numbers alone would no longer show."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from exactformer.errors import InputError
from exactformer.learning.laws.diagnosis import LawWarning
from exactformer.learning.laws.streamed.blocks import is_dask
from exactformer.learning.laws.tables import listed

_DATES = ("m", "M")


def check_inputs(X: Any, y: Any) -> None:
    """Refuse dates, categories, masked values and names that come twice, which arrays would hide.

    Rows of X and y belong together by their place. Where both have the same labels in another order,
    that is a warning.
    """
    for name, given in (("X", X), ("y", y)):
        if np.ma.is_masked(given):
            count = int(np.ma.getmaskarray(given).sum())
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
    if all(hasattr(type(part), "iloc") and not is_dask(part) for part in (X, y)):
        _check_order(X.index, y.index)


def _check_order(rows: Any, targets: Any) -> None:
    unique = len(rows) == len(targets) and rows.is_unique and targets.is_unique
    if unique and not rows.equals(targets) and rows.difference(targets).empty:
        warnings.warn(
            "X and y have the same row labels in a different order. Rows are taken by their place; if "
            "the labels are right, give y.loc[X.index]",
            LawWarning,
            stacklevel=4,
        )


def _types(name: str, given: Any) -> Iterator[tuple[str, Any]]:
    """Yield what has a type of its own: the columns of a data frame, or all of an array."""
    by_column: Any = getattr(given, "dtypes", None)
    if hasattr(given, "columns") and hasattr(by_column, "items"):
        yield from ((f"column {column!r} of {name}", dtype) for column, dtype in by_column.items())
    elif hasattr(given, "dtype"):
        yield name, given.dtype
