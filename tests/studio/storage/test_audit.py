"""The audit log: kept exactly when the change is, and read by curators."""

from __future__ import annotations

from typing import Any

import pytest

from exactformer.studio.errors import ForbiddenError, LoginNeededError
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.engine import Database
from tests.studio.support.people import People


def actions(database: Database, actor: Actor, **wanted: Any) -> list[str]:
    with database.session() as db:
        return [entry.action for entry in audit.entries(db, actor, **wanted).items]


@pytest.fixture
def curator(people: People) -> Actor:
    return Actor(people.curator.id, people.curator.handle, "Curator", "curator")


def test_an_entry_is_kept_when_its_change_is_and_only_then(app: Any, curator: Actor) -> None:
    database = app.state.database
    with database.writing() as db:
        audit.record(db, curator, "test.kept", "user", 1)
    with pytest.raises(ZeroDivisionError), database.writing() as db:
        audit.record(db, curator, "test.undone", "user", 1 // 0)
    assert actions(database, curator, action="test.") == ["test.kept"]


def test_entries_come_newest_first_and_in_windows(app: Any, curator: Actor) -> None:
    database = app.state.database
    with database.writing() as db:
        for number in range(5):
            audit.record(db, curator, f"test.{number}", "paper", number, {"number": number})
    assert actions(database, curator, action="test", limit=2) == ["test.4", "test.3"]
    assert actions(database, curator, action="test", limit=2, offset=4) == ["test.0"]
    with database.session() as db:
        assert audit.entries(db, curator, action="test", limit=1).total == 5


def test_entries_are_found_by_who_and_what(app: Any, curator: Actor, people: People) -> None:
    database, reader = app.state.database, people.reader
    with database.writing() as db:
        audit.record(db, curator, "test.a", "paper", 1)
        audit.record(db, Actor(reader.id, reader.handle, "", "reader"), "test.b", "paper", 1)
        audit.record(db, VISITOR, "test.c", "paper", 1)
    assert actions(database, curator, handle=reader.handle.upper()) == ["test.b"]
    assert actions(database, curator, action="test.", handle=curator.handle) == ["test.a"]
    assert actions(database, curator, action="%") == []


@pytest.mark.parametrize(
    ("actor", "refusal"),
    [(VISITOR, LoginNeededError), (Actor(1, "ada", "Ada", "reader"), ForbiddenError)],
)
def test_the_log_is_for_curators(app: Any, actor: Actor, refusal: type[Exception]) -> None:
    with app.state.database.session() as db, pytest.raises(refusal):
        audit.entries(db, actor)
