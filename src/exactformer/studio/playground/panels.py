"""A matrix as something to draw and to read: names, values, and exact entries as text.

What is larger than :data:`MOST` a side is drawn in blocks, of each its entry of largest size, and says
so; long rationals are shortened in the middle, with the number of their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from exactformer.core.matrix import Matrix
    from exactformer.polynomials.blueprint import Blueprint

MOST = 48
"""Rows and columns that are drawn one by one."""
LONGEST = 60
"""Characters of an exact number."""
_LARGE = 1e300  # what JSON and a browser can hold with room to spare


def exact_text(value: Fraction) -> str:
    """Return a rational as people write it, shortened beyond :data:`LONGEST` characters.

    >>> exact_text(Fraction(-1, 3))
    '-1/3'
    """
    from flint import fmpq

    text = str(fmpq(value.numerator, value.denominator))
    if len(text) <= LONGEST:
        return text
    digits = sum(character.isdigit() for character in text)
    return f"{text[:24]}…{text[-12:]} ({digits:,} digits)"


def number(value: float) -> float:
    """Return a float that JSON can hold: infinities at the end of its range, no NaN."""
    return max(-_LARGE, min(_LARGE, value)) if value == value else 0.0


def matrix_panel(blueprint: Blueprint, path: str, matrix: Matrix) -> dict[str, Any]:
    """Return a matrix of a blueprint with its symbol, names and exact entries."""
    from exactformer.algebra.rational import to_float
    from exactformer.polynomials.blueprint import labels, title

    rows, columns = labels(blueprint, path)
    panel = {"path": path, "title": title(blueprint, path), "nonzeros": matrix.nonzeros}
    if max(matrix.shape) > MOST:
        return panel | values_panel(matrix.floats(), rows, columns)
    entries = [[i, j, number(to_float(v)), exact_text(v)] for i, j, v in matrix]
    return panel | {
        "rows": list(rows),
        "columns": list(columns),
        "shape": list(matrix.shape),
        "blocks": None,
        "entries": entries,
    }


def values_panel(
    values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str]
) -> dict[str, Any]:
    """Return floats with names; what is large in blocks."""
    shown = pooled(values, MOST)
    is_pooled = shown.shape != values.shape
    return {
        "rows": _shared(rows, shown.shape[0]),
        "columns": _shared(columns, shown.shape[1]),
        "shape": list(values.shape),
        "blocks": list(shown.shape) if is_pooled else None,
        "entries": [
            [i, j, number(float(v))]
            for i, row in enumerate(shown.tolist())
            for j, v in enumerate(row)
            if v
        ],
    }


def pooled(matrix: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return a matrix of at most ``most`` rows and columns: of each block its largest |entry|."""
    import numpy as np

    for axis in (0, 1):
        size = matrix.shape[axis]
        if size > most:
            starts = np.linspace(0, size, most, endpoint=False).astype(int)
            high = np.maximum.reduceat(matrix, starts, axis=axis)
            low = np.minimum.reduceat(matrix, starts, axis=axis)
            matrix = np.where(high >= -low, high, low)
    return matrix


def _shared(names: Sequence[str], count: int) -> list[str]:
    """Return a name for every block: that of its first, and of its last."""
    if len(names) == count:
        return list(names)
    starts = [k * len(names) // count for k in range(count + 1)]
    ends = [end - 1 for end in starts[1:]]
    return [
        names[a] if a == b else f"{names[a]} … {names[b]}"
        for a, b in zip(starts, ends, strict=False)
    ]
