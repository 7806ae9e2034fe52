"""Opening databases: what is set on every connection, who writes when, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import BusyError, DatabaseError
from exactformer.studio.opinions.tables import Vote
from exactformer.studio.storage import engine, migrations
from exactformer.studio.storage.dialects import parse_address
from exactformer.studio.storage.engine import Database
from tests.waiting import PATIENCE


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'deep' / 'er' / 'studio.db'}")
    migrations.upgrade(database)
    yield database
    database.close()


def user(handle: str) -> User:
    return User(handle=handle, name=handle, password_hash="!", role="reader")


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("busy_timeout", 10_000),
    ],
)
def test_every_connection_to_sqlite_is_careful(
    database: Database, pragma: str, value: object
) -> None:
    for _ in range(2):
        with database.session() as db:
            assert db.execute(text(f"PRAGMA {pragma}")).scalar() == value
        database.close()


def test_a_vote_on_a_paper_that_is_not_there_is_impossible(database: Database) -> None:
    with pytest.raises(IntegrityError), database.writing() as db:
        db.add(Vote(paper_id=7, user_id=7, value=1))


def test_what_fails_halfway_leaves_nothing(database: Database) -> None:
    with pytest.raises(IntegrityError), database.writing() as db:
        db.add_all([user("ada"), user("grace"), user("ada")])
    with database.session() as db:
        assert db.scalar(select(func.count(User.id))) == 0


def test_reading_sees_one_state_throughout(database: Database) -> None:
    with database.session() as reader:
        assert reader.scalar(select(func.count(User.id))) == 0
        with database.writing() as writer:
            writer.add(user("ada"))
        assert reader.scalar(select(func.count(User.id))) == 0
    with database.session() as reader:
        assert reader.scalar(select(func.count(User.id))) == 1


def test_what_reading_adds_is_not_kept(database: Database) -> None:
    with database.session() as db:
        db.add(user("ada"))
        db.flush()
    with database.session() as db:
        assert db.scalar(select(func.count(User.id))) == 0


def test_writing_inside_of_writing_is_a_mistake_and_not_an_endless_wait(
    database: Database,
) -> None:
    with database.writing():
        inner = database.writing()
        with pytest.raises(RuntimeError, match="one transaction is enough"):
            inner.__enter__()
    with database.writing() as db:
        db.add(user("ada"))


def test_looking_and_then_writing_is_sound_with_many_at_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", PATIENCE)
    first, second = Database(database_url), Database(database_url)
    migrations.upgrade(first)

    def register_next(database: Database) -> None:
        for _ in range(10):
            with database.writing() as db:
                count = db.scalar(select(func.count(User.id)))
                db.add(user(f"user{count}"))

    threads = [
        threading.Thread(target=register_next, args=[database])
        for database in (first, second)
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with first.session() as db:
        handles = set(db.scalars(select(User.handle)))
    first.close()
    second.close()
    assert handles == {f"user{i}" for i in range(40)}


def test_a_writer_elsewhere_is_waited_for_and_not_forever(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Database(database_url)
    migrations.upgrade(elsewhere)
    monkeypatch.setattr(engine, "BUSY_SECONDS", 1)  # to wait for a lock, not for a connection
    patient = "" if elsewhere.is_sqlite else f"?connect_timeout={PATIENCE}"
    here = Database(database_url + patient)
    with elsewhere.writing() as db:
        db.add(user("ada"))
        db.flush()
        with pytest.raises(OperationalError, match=r"locked|timeout"), here.writing() as late:
            late.scalar(select(func.count(User.id)))
    with here.writing() as db:
        assert db.scalar(select(func.count(User.id))) == 1
    here.close()
    elsewhere.close()


def test_those_who_wait_to_write_are_few_and_the_others_are_told_to_come_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(engine, "QUEUE_SECONDS", 0.01)
    monkeypatch.setattr(engine, "MOST_WAITING", 2)
    here = Database(str(database.url))
    refused: list[BusyError] = []

    def write() -> None:
        try:
            with here.writing() as db:
                db.add(user("late"))
        except BusyError as busy:
            refused.append(busy)

    with here.writing() as db:
        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        db.add(user("ada"))
    assert len(refused) == 8
    with here.writing() as db:
        assert list(db.scalars(select(User.handle))) == ["ada"]
    here.close()


def test_the_file_is_its_owners_alone(database: Database) -> None:
    with database.writing() as db:
        db.add(user("ada"))
    files = list(Path(str(database.url.database)).parent.iterdir())
    assert len(files) == 3  # the log and its index, too
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_is_spoken_by_psycopg(scheme: str) -> None:
    url = parse_address(f"{scheme}://ada:secret@host:5433/studio")
    assert url.drivername == "postgresql+psycopg"
    assert (url.host, url.port, url.database) == ("host", 5433, "studio")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("studio.db", "not a database's address"),
        ("mysql://host/studio", "mysql is not supported"),
        ("sqlite://", "in a file"),
        ("sqlite:///:memory:", "in a file"),
    ],
)
def test_other_addresses_are_refused_in_words(address: str, said: str) -> None:
    with pytest.raises(DatabaseError, match=said):
        Database(address)
