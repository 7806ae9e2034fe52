"""A database that forgets every change when its transaction would be kept.

So every request of a long series meets the same world, whatever the ones before it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Forgetting:
    """Stands for a database of an app while a test asks for things that change it."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Everything happens, the constraints are checked, and then it has not happened."""
        with self._database.session() as session:
            session.autoflush = True
            session.expire_on_commit = False
            yield session
            session.flush()
            session.expunge_all()
            session.rollback()
