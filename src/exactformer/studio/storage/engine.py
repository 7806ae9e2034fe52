"""Opening the database: SQLite in a file, or PostgreSQL by its address.

Many read at once, one writes at a time: on SQLite a lock of this process and ``BEGIN IMMEDIATE``,
on PostgreSQL an advisory lock held by the transaction. A service may hence look first and write
afterwards. What ``writing`` has left is on disk: the journal is synced at every commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from exactformer.studio.errors import BusyError
from exactformer.studio.storage.dialects import (
    Changes,
    is_sqlite,
    lock_writers,
    open_engine,
    parse_address,
)

BUSY_SECONDS = 10  # to wait for another writer
QUEUE_SECONDS = 2  # to wait for a place among those who wait
MOST_WAITING = 20


class Database:
    """An open database. ``session()`` reads, ``writing()`` is one transaction that is kept."""

    def __init__(self, address: str) -> None:
        self.url = parse_address(address)
        self.engine = open_engine(self.url, BUSY_SECONDS)
        self._writers = self.engine.execution_options(studio_writes=True)
        self._queue = threading.Semaphore(MOST_WAITING)
        self._writer = threading.Lock()
        self._writing_thread = 0
        self._changes = Changes(self.engine)
        self.newest = self._changes.newest

    @property
    def is_sqlite(self) -> bool:
        """Whether the data lie in a file of SQLite."""
        return is_sqlite(self.engine)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Read a few columns, without objects."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Read; nothing that is done here stays."""
        with Session(self.engine, autoflush=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Write: committed and on disk when the block ends, undone when it raises."""
        with self._alone(), Session(self._writers, expire_on_commit=False) as session:
            lock_writers(session)
            yield session
            session.commit()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for the other writers of this process, for a bounded time and in a short queue.

        Who waits holds a thread, and readers need threads too.
        """
        if self._writing_thread == threading.get_ident():
            raise RuntimeError("writing inside of writing: one transaction is enough")
        with _held(self._queue, QUEUE_SECONDS), _held(self._writer, BUSY_SECONDS):
            self._writing_thread = threading.get_ident()
            try:
                yield
            finally:
                self._writing_thread = 0

    def close(self) -> None:
        """Give all connections back."""
        self._changes.close()
        self.engine.dispose()


@contextmanager
def _held(lock: threading.Lock | threading.Semaphore, seconds: float) -> Iterator[None]:
    if not lock.acquire(timeout=seconds):
        raise BusyError(
            "others are writing and take long; nothing of this request was stored: try again soon"
        )
    try:
        yield
    finally:
        lock.release()
