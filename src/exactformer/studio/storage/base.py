"""What all tables share: names of constraints, times in UTC, and how an identifier looks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, ForeignKey, MetaData
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column
from sqlalchemy.types import TypeDecorator

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


class Moment(TypeDecorator[datetime]):
    """A time with its zone, also where the database (SQLite) forgets zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC; a time without a zone is a mistake of the caller."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a stored time needs a zone")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give back UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Parent of all tables; constraints have predictable names, so that migrations find them."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {datetime: Moment}  # noqa: RUF012


def to(table: str, rule: str = "CASCADE", **more: Any) -> MappedColumn[Any]:
    """Return a column with the number of a row of ``table``; ``rule`` says what its deletion does."""
    return mapped_column(ForeignKey(f"{table}.id", ondelete=rule), **more)
