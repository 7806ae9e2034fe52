"""Sequence maps as tables on a grid: sampled from a function, or given.

The function takes a (tokens, dim) array, one row per token, and returns one. It is evaluated at the
cells' centres (or lower corners), and its floats are taken for the binary numbers they are. A map
declared equivariant has one value for all orders of its tokens, which is checked on the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice, permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError, NotEquivariantError
from exactformer.sequences.grid import Class, Columns, Grid, GridTable

EQUIVARIANCE_TOLERANCE = 1e-12
"""Relative to the largest value met: room for sums taken in another order."""
CHECKED_ORDERS = 100_000
"""Orders of columns that are all checked; beyond, a sample of so many."""

REPEATED = 10
"""Classes on which the function is asked twice."""

SequenceMap = Callable[[NDArray[np.float64]], Any]
SAMPLES = ("centre", "corner")


def tabulate(f: SequenceMap, grid: Grid, sample: str = "centre") -> GridTable:
    """Return the values of f on every class of a grid."""
    place = grid.centre if sample == "centre" else grid.corner
    points = [[float(v) for v in place(column)] for column in range(grid.points)]
    values: dict[Class, Any] = {
        ids: evaluate(f, np.array([points[k] for k in ids]), grid) for ids in grid.classes()
    }
    _check_repeatable(f, grid, points, values)
    if not grid.positional:
        _check_equivariance(f, grid, points, values)
        # Equal tokens have equal values but for rounding: sums taken in another order.
        values = {ids: y[[ids.index(k) for k in ids]] for ids, y in values.items()}
    return GridTable.of(grid, values)


def given(values: Mapping[Class, Iterable[Iterable[object]]], grid: Grid) -> GridTable:
    """Return a table that was given, {class: (tokens, dim) array}; classes left out are sent to 0."""
    table = GridTable.of(grid, values)
    if not grid.positional:
        for ids, columns in table.values.items():
            _check_equal_columns(ids, columns, grid)
    return table


def evaluate(f: SequenceMap, x: NDArray[np.float64], grid: Grid) -> Any:
    """Return f at one point, checked to be finite numbers of shape (tokens, dim)."""
    try:
        y = f(x.copy())  # it may write into what it is given
        y = y.detach().cpu().numpy() if hasattr(y, "detach") else np.asarray(y)
    except Exception as error:
        raise InputError(f"the function fails at {x.tolist()}: {error!r}") from error
    if y.shape != (grid.tokens, grid.dim):
        raise InputError(
            f"the function returns shape {y.shape} at {x.tolist()}; it takes and returns "
            f"(tokens, dim) = ({grid.tokens}, {grid.dim}), one row per token"
        )
    if y.dtype.kind in "fc" and not (y.dtype.kind == "f" and np.isfinite(y).all()):
        raise InputError(f"the function is not real and finite at {x.tolist()}: {y.tolist()}")
    return y


def _check_repeatable(
    f: SequenceMap, grid: Grid, points: list[list[float]], values: Mapping[Class, Any]
) -> None:
    """Raise if f gives other values when it is asked again, as dropout does."""
    for ids, y in islice(values.items(), REPEATED):
        x = np.array([points[k] for k in ids])
        again = evaluate(f, x, grid)
        if not np.array_equal(again, y):
            raise InputError(
                f"the function gives {y.tolist()} at {x.tolist()} and then {again.tolist()}; a map has "
                "one value at each point. Call eval() on a network with dropout, or fix the seed"
            )


def _check_equivariance(
    f: SequenceMap, grid: Grid, points: list[list[float]], values: Mapping[Class, Any]
) -> None:
    """Raise with two inputs and outputs that show that f(PX) ≠ P f(X)."""
    n = grid.tokens
    arrays = {ids: np.asarray(y, dtype=np.float64) for ids, y in values.items()}
    scale = max((float(np.abs(y).max(initial=0.0)) for y in arrays.values()), default=0.0)
    orders = list(permutations(range(n)))[1:] if factorial(n) <= CHECKED_ORDERS else None
    generator = np.random.default_rng(0)
    sampled = orders is None or len(orders) * len(arrays) > CHECKED_ORDERS
    each = max(1, CHECKED_ORDERS // max(1, len(arrays)))
    for ids, y in arrays.items():
        x = np.array([points[k] for k in ids])
        chosen: Iterable[Any] = orders or ()
        if sampled:
            chosen = (generator.permutation(n) for _ in range(each))
        for order in map(list, chosen):
            moved = np.asarray(evaluate(f, x[order], grid), dtype=np.float64)
            if np.abs(moved - y[order]).max(initial=0.0) > EQUIVARIANCE_TOLERANCE * scale:
                raise NotEquivariantError(x, y, x[order], moved)


def _check_equal_columns(ids: Class, columns: Columns, grid: Grid) -> None:
    for j in range(1, len(ids)):
        if ids[j] == ids[j - 1] and columns[j] != columns[j - 1]:
            raise InputError(
                f"class {ids}: columns {j} and {j + 1} are equal and their values are not, so this "
                "is the table of no equivariant map; use positional=True"
            )
