"""What SQLite and PostgreSQL do differently, in one place.

Opening, the lock of writers, the newest change, rows that may be there already, and the index of
words. Everything else is the same for both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    Table,
    cast,
    column,
    create_engine,
    event,
    func,
    literal_column,
    table,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from exactformer.studio.errors import DatabaseError
from exactformer.studio.storage.base import Base

WRITERS_LOCK = 0x65786163  # "exac": any number that all processes of a studio agree on
Documents = Iterable[tuple[int, Mapping[str, Sequence[str]]]]
"""The numbers of papers, and the words of each of their fields."""


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


def is_sqlite(database: Engine | Connection | Session) -> bool:
    """Whether the data lie in a file of SQLite."""
    engine = database.get_bind() if isinstance(database, Session) else database
    return engine.dialect.name == "sqlite"


def open_engine(url: URL, patience: float) -> Engine:
    """Open a database; ``patience`` is how many seconds a locked one is waited for."""
    return (_sqlite if url.get_backend_name() == "sqlite" else _postgresql)(url, patience)


def _sqlite(url: URL, patience: float) -> Engine:
    path = Path(url.database or "")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)  # it will hold hashes of passwords: for its owner alone
    engine = create_engine(
        url,
        connect_args={"timeout": patience, "check_same_thread": False},
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


def _postgresql(url: URL, patience: float) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise DatabaseError(
            'PostgreSQL needs psycopg: pip install "exactformer[studio,postgres]"'
        ) from None
    waits = {"connect_timeout": patience, "options": f"-c lock_timeout={patience}s"}
    return create_engine(
        url,
        connect_args={name: value for name, value in waits.items() if name not in url.query},
        pool_size=10,
        max_overflow=30,
        pool_pre_ping=True,
    )


def lock_writers(writer: Connection | Session) -> None:
    """Let one transaction write at a time, whichever process it is of; SQLite does so by itself."""
    if not is_sqlite(writer):
        writer.execute(text(f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})"))


class Changes:
    """The changes of a database, by whatever process.

    SQLite is asked through a connection of its own, which takes microseconds.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own: sqlite3.Connection | None = None

    def newest(self) -> str:
        """Return a word that is another one after every commit."""
        if not is_sqlite(self._engine):
            with self._engine.connect() as connection:
                return str(connection.scalar(text("SELECT pg_current_snapshot()::text")))
        if self._own is None:
            path = self._engine.url.database or ""
            self._own = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        return str(self._own.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Give the connection back."""
        if self._own is not None:
            self._own.close()
            self._own = None


def insert(db: Session, model: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """Begin an insertion that can say what happens where the key is there."""
    rows = model.__table__
    assert isinstance(rows, Table)
    return sqlite.insert(rows) if is_sqlite(db) else postgresql.insert(rows)


@dataclass(frozen=True)
class WordIndex:
    """The index of words as a database spells it: its key, whether a row matches, and how well.

    ``value`` is the key where it must not lead: SQLite would ask the index once for each paper.
    """

    key: ColumnElement[int]
    value: ColumnElement[int]
    matches: ColumnElement[bool]
    rank: ColumnElement[float]


def word_index(db: Session, words: Sequence[str], is_open: bool) -> WordIndex:
    """Return the index for papers with all these words; the last may be ``open``, a beginning."""
    if is_sqlite(db):
        rows = table("search_papers", column("rowid", Integer), column("rank", Float))
        given = " ".join(f'"{word}"' for word in words) + ("*" if is_open else "")
        matching = literal_column("search_papers").op("MATCH")(given)
        value = literal_column("+search_papers.rowid", Integer)
        return WordIndex(rows.c.rowid, value, matching, rows.c.rank)
    rows = table("search_papers", column("paper_id", Integer), column("document"))
    given = " & ".join(f"'{word}'" for word in words) + (":*" if is_open else "")
    wanted = cast(given, TSQUERY)
    rank = -func.ts_rank(rows.c.document, wanted, type_=Float)
    key = rows.c.paper_id
    return WordIndex(key, key, rows.c.document.op("@@")(wanted), rank)


def forget_documents(db: Session, ids: Sequence[int]) -> None:
    """Take papers out of the index of words."""
    key = "rowid" if is_sqlite(db) else "paper_id"
    db.execute(text(f"DELETE FROM search_papers WHERE {key} = :id"), [{"id": id} for id in ids])


def keep_documents(db: Session, documents: Documents, weights: Mapping[str, str]) -> None:
    """Put papers into the index of words; ``weights`` are PostgreSQL's letters for their fields."""
    if is_sqlite(db):
        names = ", ".join(weights)
        values = ", ".join(f":{name}" for name in weights)
        statement = f"INSERT INTO search_papers (rowid, {names}) VALUES (:id, {values})"
        rows = [
            {"id": id} | {field: " ".join(words) for field, words in fields.items()}
            for id, fields in documents
        ]
    else:
        statement = (
            "INSERT INTO search_papers (paper_id, document) "
            "VALUES (:id, CAST(:document AS tsvector))"
        )
        rows = [{"id": id, "document": _vector(fields, weights)} for id, fields in documents]
    if rows:
        db.execute(text(statement), rows)


def _vector(fields: Mapping[str, Sequence[str]], weights: Mapping[str, str]) -> str:
    """Write a ``tsvector``: each word with its places, each place with its field's weight."""
    places: dict[str, list[str]] = {}
    position = 0
    for field, found in fields.items():
        for word in found:
            position += 1
            places.setdefault(word, []).append(f"{position}{weights[field]}")
    return " ".join(f"'{word}':{','.join(at[:200])}" for word, at in places.items())
