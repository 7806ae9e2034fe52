"""A database whose changes are forgotten when a test says so.

So every request of a long series meets the same world, whatever the ones before it did. All that a
request does happens in one transaction of one connection, which is never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Forgetting:
    """Stands for the database of an app while tests ask for things that change it."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._connection = database.engine.connect()
        self._connection.begin()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """The one connection."""
        yield self._connection

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Read what there is, and what this request has done."""
        from sqlalchemy.orm import Session

        with Session(self._connection, autoflush=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Write as always; kept until `forget`."""
        from sqlalchemy.orm import Session

        with Session(
            self._connection, expire_on_commit=False, join_transaction_mode="create_savepoint"
        ) as session:
            yield session
            session.commit()

    def forget(self) -> None:
        """Nothing has happened."""
        self._connection.rollback()
        self._connection.begin()

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()
