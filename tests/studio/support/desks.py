"""A desk for tests of services: a library of two papers in memory, and people around it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import pytest
from sqlalchemy import Connection, create_engine, func, select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.audit import AuditEntry
from exactformer.studio.storage.tables import Base


@dataclass(frozen=True)
class Desk:
    """A session, two papers (the first claims a table and a theorem), and four people."""

    db: Session
    paper: Paper
    other_paper: Paper
    ada: Actor
    bob: Actor
    curator: Actor
    admin: Actor

    def actions(self) -> list[str]:
        """What the audit log holds, in order."""
        self.db.flush()
        return list(self.db.scalars(select(AuditEntry.action).order_by(AuditEntry.id)))

    def count(self, table: type[Base]) -> int:
        """Rows of a table."""
        return self.db.scalar(select(func.count()).select_from(table)) or 0


def fill_desk(db: Session) -> Desk:
    """Write the papers and people of a desk."""
    claims = [
        Claim(position=0, anchor="theorem-1", kind="theorem", title="Theorem 1"),
        Claim(position=1, anchor="table-1", kind="table", title="Table 1"),
    ]
    paper = Paper(slug="fang", title="Zero error", normalised_title="zero error", claims=claims)
    other = Paper(slug="yun", title="Universal", normalised_title="universal")
    roles = {"ada": "reader", "bob": "reader", "cleo": "curator", "dora": "admin"}
    users = [
        User(handle=handle, name=handle.capitalize(), password_hash="-", role=role)
        for handle, role in roles.items()
    ]
    db.add_all([paper, other, *users])
    db.flush()
    actors = [Actor(user.id, user.handle, user.name, user.role) for user in users]
    return Desk(db, paper, other, *actors)


@contextmanager
def in_memory() -> Iterator[Connection]:
    """A connection to a database of its own, closed afterwards."""
    engine = create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def open_desk() -> Iterator[Desk]:
    """A desk that is gone afterwards."""
    with in_memory() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        Base.metadata.create_all(connection)
        with Session(connection) as db:
            yield fill_desk(db)


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk of this test's own."""
    with open_desk() as desk:
        yield desk


@contextmanager
def open_library(original: sqlite3.Connection | None = None) -> Iterator[Session]:
    """A library with its search index, empty or a copy, gone afterwards."""
    with in_memory() as connection:
        if original is None:
            Base.metadata.create_all(connection)
            make_search_index(connection)
            connection.commit()
        else:
            original.backup(driver(connection))
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.commit()
        with Session(connection) as db:
            yield db


def make_search_index(connection: Connection) -> None:
    """Make the empty index of full-text search, as the migration does."""
    made = import_module("exactformer.studio.storage.migrations.versions.0001_tables")
    sqlite = connection.dialect.name == "sqlite"
    for statement in made.SQLITE if sqlite else made.POSTGRESQL:
        connection.exec_driver_sql(statement)


def driver(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection."""
    own = connection.connection.driver_connection
    assert isinstance(own, sqlite3.Connection)
    return own


@pytest.fixture
def library() -> Iterator[Session]:
    """An empty library of this test's own."""
    with open_library() as db:
        yield db


@pytest.fixture(scope="session")
def blank() -> Iterator[sqlite3.Connection]:
    """An empty library to copy: quicker than making its tables again."""
    with open_library() as db:
        yield driver(db.connection())


@pytest.fixture(scope="session")
def original() -> Iterator[sqlite3.Connection]:
    """The library as it begins, made once."""
    from exactformer.studio.library import seeds

    with open_library() as db:
        seeds.seed(db)
        db.flush()
        driver(db.connection()).commit()  # a copy waits for ever for what is not committed
        yield driver(db.connection())


@pytest.fixture
def seeded_library(original: sqlite3.Connection) -> Iterator[Session]:
    """A library of this test's own with the four works in it."""
    with open_library(original) as db:
        yield db
