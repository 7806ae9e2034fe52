"""Whether anybody has written, this process or another: SQLite can tell, at the cost of a glance.

``PRAGMA data_version`` gives a number that changes, for the connection that asks, whenever another
connection has committed. The connection here does nothing else, so every commit is another's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sqlalchemy import event

from exactformer.studio.storage.engine import Database

Version = int | None


def version_of(database: Database) -> Callable[[], Version]:
    """Return what gives the present version of a database; always None where it cannot be told."""
    path = database.url.database
    if not database.is_sqlite or path is None:
        return lambda: None
    watch = _Watch(path)
    event.listen(database.engine, "engine_disposed", lambda engine: watch.close())
    return watch.version


class _Watch:
    """A connection of its own, opened when first asked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def version(self) -> Version:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, check_same_thread=False)
            row = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        return int(row[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
