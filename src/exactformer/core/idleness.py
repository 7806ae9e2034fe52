"""Rows that no stored entry supports: what a small file may claim, and memory would have to hold.

Sparse matrices state their shape; the tables that a proof or a module makes of them are dense. A head's
rows are its own choice, as are the units of a feed-forward layer and the tokens of an embedding, so a
file can claim any number of them. Constructions use every one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from exactformer.core.layers import Embedding, FeedForward, Head
from exactformer.core.matrix import Matrix
from exactformer.errors import FileFormatError

MOST_IDLE = 1024
"""Rows without an entry that are accepted: nothing forbids a few."""

Used = tuple[str, int, set[int]]
"""What has rows, how many it claims, and those that have an entry."""


def check_idleness(parts: Iterable[tuple[str, Any]]) -> None:
    """Raise where tokens, rows of a head or units are claimed that the weights do not use.

    Parts are layers, or dataclasses without rows of their own, each with its place in the blueprint.
    """
    for place, part in parts:
        for name, claimed, used in _claims(place, part):
            if claimed - len(used) > MOST_IDLE:
                raise FileFormatError(
                    f"{name} has {claimed:,} rows, of which {len(used):,} have an entry; at most "
                    f"{MOST_IDLE:,} rows may be without one"
                )


def _claims(place: str, part: Any) -> Iterator[Used]:
    if isinstance(part, Embedding):
        tokens = _rows(part.features) | _rows(part.constant)
        yield f"{place}.features", part.features.rows, tokens
    elif isinstance(part, Head):
        rows = _rows(part.query) | _rows(part.key)
        yield f"{place}.query", max(part.query.rows, part.key.rows), rows
    elif isinstance(part, FeedForward):
        units = _rows(part.w1) | _rows(part.b1) | {j for _, j in part.w2.entries}
        yield f"{place}.w1", max(part.w1.rows, part.w2.columns), units


def _rows(matrix: Matrix) -> set[int]:
    return {i for i, _ in matrix.entries}
