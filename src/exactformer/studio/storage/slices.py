"""Long lists in parts: a stretch with the length of the whole, or pieces for one statement each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

Item = TypeVar("Item")


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """``items`` are those from ``offset`` on, at most ``limit`` of ``total``."""

    items: tuple[Item, ...]
    total: int
    limit: int
    offset: int

    @property
    def page(self) -> int:
        """The number of this stretch among stretches of its length, from 1."""
        return self.offset // self.limit + 1

    @property
    def pages(self) -> int:
        """How many such stretches there are."""
        return max(1, -(-self.total // self.limit))


def cut(
    db: Session, statement: Select[Item], limit: int, offset: int, *options: Any
) -> Slice[Item]:
    """Read a stretch of what ``statement`` selects, with loading ``options``."""
    rows = statement.order_by(None).subquery()
    total = db.scalar(select(func.count()).select_from(rows)) or 0
    items = db.scalars(statement.options(*options).limit(limit).offset(offset)).unique()
    return Slice(tuple(items), total, limit, offset)


def chunks(values: Sequence[Item], size: int = 400) -> Iterator[Sequence[Item]]:
    """Give ``values`` in pieces: databases bound how many values one statement may hold."""
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]
