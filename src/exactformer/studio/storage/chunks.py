"""Long lists in pieces: databases bound how many values one statement may hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def chunks(values: Sequence[T], size: int = 400) -> Iterator[Sequence[T]]:
    """Give ``values`` in pieces of at most ``size``."""
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]
