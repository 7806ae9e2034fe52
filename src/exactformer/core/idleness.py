"""Rows that no stored entry supports: what a small file may claim, and memory would have to hold.

Sparse matrices state their shape; the tables that a proof or a module makes of them are dense. A head's
rows are its own choice, as are the units of a feed-forward layer and the tokens of an embedding, so a
file can claim any number of them. Constructions use every one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exactformer.core.layers import Attention, Embedding, Head, Layer
from exactformer.core.matrix import Matrix
from exactformer.errors import FileFormatError

MOST_IDLE = 1024
"""Rows without an entry that are accepted: nothing forbids a few."""

Used = tuple[str, int, set[int]]
"""What has rows, how many it claims, and those that have an entry."""


def check_idleness(layers: Iterable[tuple[str, Layer | Embedding]]) -> None:
    """Raise where tokens, rows of a head or units are claimed that the weights do not use."""
    for place, layer in layers:
        for name, claimed, used in _claims(place, layer):
            if claimed - len(used) > MOST_IDLE:
                raise FileFormatError(
                    f"{name} has {claimed:,} rows, of which {len(used):,} have an entry; at most "
                    f"{MOST_IDLE:,} rows may be without one"
                )


def _claims(place: str, layer: Layer | Embedding) -> Iterator[Used]:
    if isinstance(layer, Embedding):
        tokens = _rows(layer.features) | _rows(layer.constant)
        yield f"{place}.features", layer.features.rows, tokens
    elif isinstance(layer, Attention):
        for h, head in enumerate(layer.heads):
            yield f"{place}.heads.{h}.query", max(head.query.rows, head.key.rows), _used(head)
    else:
        units = _rows(layer.w1) | _rows(layer.b1) | {j for _, j in layer.w2.entries}
        yield f"{place}.feed_forward.w1", max(layer.w1.rows, layer.w2.columns), units


def _used(head: Head) -> set[int]:
    return _rows(head.query) | _rows(head.key)


def _rows(matrix: Matrix) -> set[int]:
    return {i for i, _ in matrix.entries}
