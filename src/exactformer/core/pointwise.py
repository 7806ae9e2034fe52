"""Functions of points that are given as functions of arrays: each value from its own point alone.

``np.max(x)``, ``x - x.mean()`` and ``np.sort(x)`` look at all points of an array at once. Sampled at
thousands of points they are not the functions of one point that their author means, and nothing in
the samples shows it. So some values are compared with those of the same points asked for alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from exactformer.core.arrays import Array
from exactformer.errors import InputError

AGREEMENT = 1e-6
"""Of the largest value: room for arithmetic that depends on the number of points."""
NOISE = 64 * float(np.finfo(np.float64).eps)
"""Of terms of size one that cancel."""


def check_pointwise(values: Array, alone: Callable[[int], Any], name: str) -> None:
    """Raise if some of the ``values`` (N, …) differ from what a function gives at one point alone.

    Args:
        values: what it gave at all points together.
        alone: what it gives at the point with this number.
        name: what to call it.
    """
    for place in _places(values):
        try:
            single = np.asarray(alone(place), dtype=np.float64)
        except Exception as error:  # whatever a user's function raises
            raise InputError(f"{name} fails at a point alone: {error!r}") from error
        if not agree(values[place], single, largest(values)):
            raise InputError(
                f"{name} gives {_text(single)} at a point alone and {_text(values[place])} at the same "
                f"point among {len(values):,}; each value must depend on its own point only, as with "
                "np.maximum(x, 0) and not with np.max(x)"
            )


def agree(values: Array, others: Array, scale: float) -> bool:
    """Say whether values are the same but for rounding, at a scale."""
    if values.size != others.size:
        return False
    room = AGREEMENT * scale + NOISE
    return np.allclose(values.ravel(), others.ravel(), rtol=0, atol=room, equal_nan=True)


def largest(values: Array) -> float:
    """Return the largest absolute value that is finite, 0 if none is."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _places(values: Array) -> list[int]:
    """Return the ends, the middle, and where the least and the largest value are."""
    if not values.size:
        return []
    rows = values.reshape(len(values), -1)[:, 0]
    places = (0, len(rows) // 2, len(rows) - 1, int(rows.argmin()), int(rows.argmax()))
    return sorted(set(places))


def _text(values: Array) -> str:
    numbers = [f"{value:.6g}" for value in values.ravel()[:4]]
    more = ", …" if values.size > 4 else ""
    return numbers[0] if values.size == 1 else f"({', '.join(numbers)}{more})"
