"""The sample of a solver: checked rows, weights that count repetitions, columns that differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.columns import Array

# A column whose part outside the others' span is below this share of its spread adds nothing.
_DEPENDENT = 1e-9
# Such a share of its variance outside the others' span makes a column worth a look.
_SUSPECT = 1e-8
_SHOWN = 5
# Squares and products of numbers within these sizes are floats.
_LARGEST, _SMALLEST = 1e100, 1e-100


class DependentColumnsWarning(UserWarning):
    """A column is a linear function of earlier ones: the data cannot distinguish them."""


class RowLabelsWarning(UserWarning):
    """A column named like an index counts the rows."""


@dataclass(frozen=True)
class Sample:
    """Rows that count: ``X`` (N, d), ``Y`` (N, outputs), ``weight`` (N,), all weights positive.

    A weight is a number of repetitions: a row of weight 2 is that row twice, and the sample size of
    every test is the sum of the weights. ``unused`` has the reason for each column left out. Columns
    that are functions of others obey identities: ``apart`` has pairs that no term holds together (x
    and 1/x), ``highest`` the largest power of each (the square of a root is no news).
    """

    X: Array
    Y: Array
    weight: Array
    used: NDArray[np.int64]
    unused: dict[int, str]
    apart: tuple[tuple[int, int], ...] = ()
    highest: NDArray[np.int64] | None = None

    @property
    def dimension(self) -> int:
        """The number of columns of the table, used or not."""
        return len(self.used) + len(self.unused)

    @property
    def size(self) -> float:
        """The number of observations, repetitions counted."""
        return float(self.weight.sum())

    def mean(self, values: Array) -> Array:
        """Return the mean over the rows (N, …), repetitions counted."""
        return np.asarray(self.weight @ values / self.weight.sum())

    def part(self, rows: slice | NDArray[np.bool_]) -> Sample:
        """Return some rows, with the same columns."""
        return replace(self, X=self.X[rows], Y=self.Y[rows], weight=self.weight[rows])


def counted_rows(weight: Array) -> NDArray[np.int64]:
    """Return the places of the rows whose weight is not zero."""
    if (weight < 0).any():
        raise InputError(f"weights count repetitions; the smallest is {weight.min():g}, below 0")
    if not weight.any():
        raise InputError("every sample_weight is zero; nothing is left to fit")
    return np.flatnonzero(weight)


def take_sample(X: Array, Y: Array, weight: Array | None, names: list[str]) -> Sample:
    """Drop columns that are constant or depend linearly on earlier ones."""
    weight = np.ones(len(X)) if weight is None else weight
    check_sizes(X.min(axis=0), X.max(axis=0), [f"the column {name}" for name in names])
    check_sizes(Y.min(axis=0), Y.max(axis=0), ["y"] * Y.shape[1])
    unused = _unused(X, names)
    used = np.array([j for j in range(X.shape[1]) if j not in unused], dtype=np.int64)
    kept = X if len(used) == X.shape[1] else X[:, used]
    return Sample(np.ascontiguousarray(kept), Y, weight, used, unused)


def check_sizes(low: Array, high: Array, names: list[str]) -> None:
    """Refuse columns whose squares would overflow, or vanish beside zero."""
    for name, least, most in zip(names, low.tolist(), high.tolist(), strict=True):
        if max(-least, most) > _LARGEST or 0 < most - least < _SMALLEST:
            raise InputError(
                f"{name} goes from {least:.3g} to {most:.3g}; sizes beyond {_LARGEST:g} and widths "
                f"below {_SMALLEST:g} cannot be squared. Change the unit"
            )


def all_differ(table: Array) -> bool:
    """Whether no row comes twice."""
    return any(_all_differ(column) for column in table.T) or _all_differ(equal_rows(table))


def _all_differ(values: NDArray[Any]) -> bool:
    ordered = np.sort(values)
    return not bool((ordered[1:] == ordered[:-1]).any())


def equal_rows(table: Array) -> NDArray[np.uint64]:
    """Return a number for each row (N,): the same for equal rows, another but by chance for others."""
    bits = np.ascontiguousarray(table + 0.0).view(np.uint64)
    found = np.zeros(len(table), dtype=np.uint64)
    for column in bits.T:
        found = (found ^ column) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found


def _unused(X: Array, names: list[str]) -> dict[int, str]:
    columns = np.flatnonzero(np.ptp(X, axis=0)).tolist()
    if not columns:
        return dict.fromkeys(range(len(names)), "constant")
    mean = X.mean(axis=0)

    def departure(j: int, others: list[int], slopes: Array) -> float:
        left = X[:, j] - mean[j] - (X[:, others] - mean[others]) @ slopes
        return float(np.abs(left).max() / np.abs(X[:, j] - mean[j]).max())

    correlation = np.corrcoef(X[:, columns], rowvar=False).reshape(len(columns), len(columns))
    sums = correlation, mean, X.std(axis=0)
    return unused_columns(columns, names, *sums, departure, lambda: len(np.unique(X, axis=0)))


def unused_columns(
    columns: list[int],
    names: list[str],
    correlation: Array,
    mean: Array,
    spread: Array,
    departure: Callable[[int, list[int], Array], float],
    distinct: Callable[[], int],
) -> dict[int, str]:
    """Return which columns are constant or linear in the ones before them, and in which.

    All but ``columns`` are constant. One Cholesky step per column on their correlations finds
    candidates; ``departure(j, others, slopes)`` decides on the data themselves, for correlations lose
    half the digits: it returns how far column j is from that function, as a share of its own reach.
    As many columns as rows are dependent whatever they hold, so a relation counts only where other
    rows could have contradicted it: ``distinct()`` is the number of different rows.
    """
    found = {j: "constant" for j in range(len(names)) if j not in columns}
    kept: list[int] = []
    whole, failed = lapack.dpotrf(correlation, lower=1)
    if not failed and (np.square(whole.diagonal()) >= 2 * _SUSPECT).all():
        return found
    factor = np.zeros((len(columns), len(columns)))
    rows: int | None = None
    for i, j in enumerate(columns):
        n = len(kept)
        row = (
            solve_triangular(factor[:n, :n], correlation[kept, i], lower=True)
            if n
            else factor[0, :0]
        )
        rest = correlation[i, i] - row @ row
        if rest < _SUSPECT:
            others = [columns[k] for k in kept]
            slopes = solve_triangular(factor[:n, :n], row, lower=True, trans="T")
            slopes = slopes * spread[j] / spread[others]
            if departure(j, others, slopes) <= _DEPENDENT:
                rows = distinct() if rows is None else rows
                if len(others) + 2 >= rows:
                    break
                offset = mean[j] - mean[others] @ slopes
                # What is below the precision of the relation itself is no offset.
                offset = 0.0 if abs(offset) <= _DEPENDENT * spread[j] else offset
                share = spread[others] / spread[j]
                found[j] = _relation(slopes, offset, share, [names[k] for k in others])
                continue
        factor[n, :n], factor[n, n] = row, np.sqrt(max(rest, 1e-16))
        kept.append(i)
    return dict(sorted(found.items()))


def _relation(slopes: Array, offset: float, share: Array, names: list[str]) -> str:
    parts = [
        name if abs(c - 1) < 1e-9 else f"{c:.6g} {name}"
        for c, s, name in zip(slopes, share, names, strict=True)
        if abs(c) * s > 1e-7
    ]
    if len(parts) == 1 and parts[0] in names and not offset:
        return f"identical to {parts[0]}"
    if len(parts) > _SHOWN:
        return f"equal to a sum of {len(parts)} others"
    shown = [f"{offset:.6g}"] if offset else []
    return "equal to " + " + ".join(parts + shown).replace("+ -", "- ")


def median(values: Array) -> float:
    """Return the median, without the checks that take NumPy's longer than the work."""
    middle = (len(values) - 1) // 2, len(values) // 2
    return float(np.partition(values, middle)[[*middle]].sum()) / 2


def weighted_median(values: Array, weight: Array) -> float:
    """Return the median, each value repeated as often as its weight says."""
    if (weight == 1).all():
        return median(values)
    order = np.argsort(values)
    sums = np.cumsum(weight[order])
    lower, upper = (np.searchsorted(sums, sums[-1] / 2, side=side) for side in ("left", "right"))
    last = len(values) - 1
    return float(values[order[min(lower, last)]] + values[order[min(upper, last)]]) / 2
