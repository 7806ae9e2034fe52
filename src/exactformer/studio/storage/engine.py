"""Opening the database: SQLite in a file, or PostgreSQL by its address.

Many read at once, one writes at a time: on SQLite a lock of this process and ``BEGIN IMMEDIATE``,
on PostgreSQL an advisory lock held by the transaction. A service may hence look first and write
afterwards. What ``writing`` has left is on disk: the journal is synced at every commit.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from exactformer.studio.errors import BusyError, DatabaseError

BUSY_SECONDS = 10  # to wait for another writer
QUEUE_SECONDS = 2  # to wait for a place among those who wait
MOST_WAITING = 20
WRITERS_LOCK = 0x65786163  # "exac": any number that all processes of a studio agree on


class Database:
    """An open database. ``session()`` reads, ``writing()`` is one transaction that is kept."""

    def __init__(self, address: str) -> None:
        self.url = parse_address(address)
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)
        self._writers = self.engine.execution_options(studio_writes=True)
        self._queue = threading.Semaphore(MOST_WAITING)
        self._writer = threading.Lock()
        self._writing_thread = 0
        self._glance: sqlite3.Connection | None = None

    @property
    def is_sqlite(self) -> bool:
        """Whether the data lie in a file of SQLite."""
        return self.url.get_backend_name() == "sqlite"

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
            if not self.is_sqlite:
                session.execute(text(f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})"))
            yield session
            session.commit()

    def newest(self) -> str:
        """Return a word that is another one after every commit, by whatever process.

        SQLite is asked through a connection of its own, which takes microseconds.
        """
        if not self.is_sqlite:
            with self.engine.connect() as connection:
                return str(connection.scalar(text("SELECT pg_current_snapshot()::text")))
        if self._glance is None:
            path = self.url.database or ""
            self._glance = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        return str(self._glance.execute("PRAGMA data_version").fetchone()[0])

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
        if self._glance is not None:
            self._glance.close()
            self._glance = None
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


def parse_address(address: str) -> URL:
    """Read a database's address; ``postgresql://`` is spoken by psycopg."""
    try:
        url = make_url(address)
    except ArgumentError:
        raise DatabaseError(
            f"{address!r} is not a database's address; write sqlite:///folder/studio.db or "
            "postgresql://user@host/name"
        ) from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise DatabaseError(f"{url.drivername} is not supported; sqlite and postgresql are")
    if url.database in (None, "", ":memory:") or (url.database or "").startswith("file:"):
        raise DatabaseError("the studio keeps its data in a file; write sqlite:///folder/studio.db")
    return url


def _sqlite(url: URL) -> Engine:
    path = Path(url.database or "")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)  # it will hold hashes of passwords: for its owner alone
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        pool_size=20,
        max_overflow=60,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("studio_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(url: URL) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise DatabaseError(
            'PostgreSQL needs psycopg: pip install "exactformer[studio,postgres]"'
        ) from None
    patience = {"connect_timeout": BUSY_SECONDS, "options": f"-c lock_timeout={BUSY_SECONDS}s"}
    return create_engine(
        url,
        connect_args={name: value for name, value in patience.items() if name not in url.query},
        pool_size=10,
        max_overflow=30,
        pool_pre_ping=True,
    )
