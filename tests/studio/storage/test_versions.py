"""Every change that a page could show raises a version, in whatever process it is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.opinions import comments, quick, reviews
from exactformer.studio.opinions.comments import COMMENTS, CommentDraft
from exactformer.studio.opinions.reviews import ReviewDraft
from exactformer.studio.opinions.tables import Flag, Vote
from exactformer.studio.security import sessions
from exactformer.studio.security.actor import Actor
from exactformer.studio.settings import Settings
from exactformer.studio.storage import migrations, versions
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.tables import Base


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    migrations.upgrade(database)
    with database.writing() as db:
        for slug in ("one", "two"):
            db.add(Paper(slug=slug, title=slug, normalised_title=slug))
        for handle in ("ada", "eve"):
            db.add(User(handle=handle, name=handle, password_hash="-", role="reader"))
            db.flush()
        comments.write(db, ADA, db.get_one(Paper, 2), CommentDraft(body="So it is."))
    yield database
    database.close()


ADA = Actor(1, "ada", "ada", "reader")
EVE = Actor(2, "eve", "eve", "reader")


def numbers(database: Database) -> dict[int, int]:
    with database.session() as db:
        rows = db.execute(select(versions.Version.scope, versions.Version.number))
        return dict(rows.all())


def raised(database: Database, change: object) -> set[int]:
    """The scopes whose numbers a change has raised."""
    before, seen = numbers(database), database.version()
    with database.writing() as db:
        change(db)  # type: ignore[operator]
    after = numbers(database)
    scopes = {scope for scope in after if after[scope] != before.get(scope)}
    assert (database.version() != seen) == (versions.ANYTHING in scopes)
    return scopes


OPINIONS = {
    "vote": lambda db, paper: quick.vote(db, ADA, paper, 1),
    "reaction": lambda db, paper: quick.react(db, ADA, paper, "useful", True),
    "save": lambda db, paper: quick.save(db, ADA, paper, True),
    "review": lambda db, paper: reviews.write(db, ADA, paper, ReviewDraft(summary="Fine.")),
    "comment": lambda db, paper: comments.write(db, ADA, paper, CommentDraft(body="Why?")),
    "mark": lambda db, paper: COMMENTS.mark(db, EVE, 1, True),
}


@pytest.mark.parametrize("name", OPINIONS)
def test_an_opinion_raises_the_version_of_its_paper_alone(database: Database, name: str) -> None:
    def change(db):
        OPINIONS[name](db, db.get_one(Paper, 2))

    assert raised(database, change) == {versions.ANYTHING, 2}


def test_a_change_that_nobody_declared_raises_the_version_of_everything(database: Database) -> None:
    everything = {versions.ANYTHING, versions.EVERYTHING}

    def rename(db):
        db.get_one(User, 1).name = "Ada Lovelace"

    def declare_too_little(db):
        versions.touch(db, 1)
        db.get_one(Paper, 2).title = "Another title"

    def undeclared(db):
        db.add(Vote(paper_id=1, user_id=1, value=1))

    for change in (rename, declare_too_little, undeclared):
        assert raised(database, change) == everything, change


def test_sessions_and_reads_raise_nothing(database: Database) -> None:
    def begin(db):
        sessions.begin(db, Settings(database="sqlite:///x"), db.get_one(User, 1), "a browser")

    assert raised(database, begin) == set()
    assert raised(database, lambda db: db.scalars(select(Paper)).all()) == set()


def test_telling_a_reader_changes_no_page_but_that_of_the_paper(database: Database) -> None:
    def answer(db):
        comments.write(db, EVE, db.get_one(Paper, 2), CommentDraft(body="Why?"), parent_id=1)

    assert raised(database, answer) == {versions.ANYTHING, 2}
    with database.session() as db:
        assert notices.unread(db, ADA) == 1
    assert raised(database, lambda db: notices.mark_read(db, ADA, 100)) == set()


def test_what_is_declared_counts_whatever_table_it_is_in(database: Database) -> None:
    """The reason why a text is hidden is shown with it, and lies in a table of reports."""

    def change(db):
        versions.touch(db, 2)
        db.add(Flag(subject_kind="comment", subject_id=1, reporter_id=2, reason="rude"))

    assert raised(database, change) == {versions.ANYTHING, 2}


def test_another_process_is_seen(database: Database) -> None:
    other = Database(database.url.render_as_string(hide_password=False))
    seen = database.version(), other.version()
    with other.writing() as db:
        quick.vote(db, ADA, db.get_one(Paper, 1), -1)
    assert database.version() == other.version() == seen[0] + 1 == seen[1] + 1
    other.close()


def test_what_is_undone_raises_nothing(database: Database) -> None:
    before = numbers(database)

    def fail() -> None:
        with database.writing() as db:
            quick.vote(db, ADA, db.get_one(Paper, 1), 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert numbers(database) == before


def test_the_named_tables_exist() -> None:
    tables = set(Base.metadata.tables)
    assert tables >= versions.OF_PAPERS
    assert tables >= versions.UNSEEN
