"""Every migration, up and down, with something in every table: what both schemas can hold stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import MetaData, func, inspect, select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import LoginSession, User
from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Citation,
    Claim,
    Institution,
    Paper,
    PaperTopic,
    Person,
    Topic,
)
from exactformer.studio.notices.tables import Follow, Notice
from exactformer.studio.opinions.tables import (
    Collection,
    CollectionItem,
    Comment,
    CommentMark,
    CommentMention,
    CommentVersion,
    Flag,
    Reaction,
    Review,
    ReviewMark,
    ReviewVersion,
    Save,
    Vote,
)
from exactformer.studio.proposals.tables import Proposal
from exactformer.studio.storage.audit import AuditEntry
from exactformer.studio.storage.base import now
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.migrations import differences, downgrade, upgrade
from exactformer.studio.storage.tables import Base

Rows = dict[str, list[dict[str, Any]]]


def revisions() -> list[str]:
    """All revisions, the first one first."""
    from pathlib import Path

    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from exactformer.studio.storage import migrations

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    return [script.revision for script in scripts][::-1]


def fill(db: Session) -> None:
    """One of everything."""
    anna = User(handle="anna", name="Anna", password_hash="x", role="admin")
    papers = [
        Paper(slug=f"paper-{n}", title=f"Paper {n} — ζ", normalised_title=f"paper {n}", doi=None)
        for n in range(3)
    ]
    house = Institution(name="House", normalised_name="house")
    author = Person(name="Emmy", normalised_name="emmy")
    topic = Topic(slug="attention", name="Attention")
    db.add_all([anna, *papers, house, author, topic])
    db.flush()
    here, there = papers[0].id, papers[1].id
    db.add(LoginSession(token_hash="h", user_id=anna.id, csrf_token="c", expires_at=now()))
    db.add(Authorship(paper_id=here, position=1, person_id=author.id))
    db.flush()
    db.add(Affiliation(paper_id=here, position=1, institution_id=house.id))
    db.add(PaperTopic(paper_id=here, topic_id=topic.id))
    db.add(Citation(citing_id=here, cited_id=there))
    claim = Claim(paper_id=here, position=1, anchor="table-1", kind="table", title="Table 1")
    review = Review(paper_id=here, author_id=anna.id, summary="Fine.", confidence=4)
    comment = Comment(paper_id=here, author_id=anna.id, body="See #table-1.")
    shelf = Collection(owner_id=anna.id, title="Shelf", token="t")
    db.add_all([claim, review, comment, shelf])
    db.flush()
    db.add(Comment(paper_id=here, author_id=anna.id, body="Yes.", parent_id=comment.id))
    db.add(CommentVersion(comment_id=comment.id, revision=1, body=comment.body))
    db.add(CommentMention(comment_id=comment.id, claim_id=claim.id))
    parts = {"summary": "Fine.", "strengths": "", "concerns": "", "questions": "", "conflict": ""}
    db.add(ReviewVersion(review_id=review.id, revision=1, confidence=4, **parts))
    db.add(ReviewMark(text_id=review.id, user_id=anna.id))
    db.add(CommentMark(text_id=comment.id, user_id=anna.id))
    db.add(Vote(paper_id=here, user_id=anna.id, value=-1))
    db.add(Reaction(paper_id=here, user_id=anna.id, kind="useful"))
    db.add(Save(paper_id=here, user_id=anna.id))
    db.add(CollectionItem(collection_id=shelf.id, paper_id=here, position=1, note="first"))
    db.add(Flag(subject_kind="comment", subject_id=comment.id, reporter_id=anna.id, reason="why"))
    db.add(AuditEntry(actor_id=anna.id, action="x", subject_kind="paper", detail={"a": [1]}))
    db.add(Follow(paper_id=here, user_id=anna.id, anchor="table-1"))
    db.add(Notice(user_id=anna.id, kind="answer", paper_id=here, comment_id=comment.id))
    db.add(Proposal(proposer_id=anna.id, record={"title": "ζ"}))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def filled(database: Database) -> Database:
    upgrade(database)
    with database.writing() as db:
        fill(db)
    return database


def stored(database: Database) -> Rows:
    """All rows of all tables the database now has, apart from what searching keeps."""
    metadata = MetaData()
    with database.engine.connect() as connection:
        names = inspect(connection).get_table_names()
        metadata.reflect(connection, only=[name for name in names if "search" not in name])
        rows: Rows = {}
        for table in metadata.sorted_tables:
            found = connection.execute(select(table)).mappings()
            rows[table.name] = sorted((dict(row) for row in found), key=repr)
    rows.pop("alembic_version", None)
    return rows


def shared(rows: Rows, other: Rows) -> Rows:
    """The part of some rows that the other tables have columns for."""
    return {
        name: [{key: row[key] for key in row if key in other[name][0]} for row in rows[name]]
        for name in rows
        if other.get(name)
    }


def test_something_is_in_every_table(filled: Database) -> None:
    with filled.session() as db:
        for table in Base.metadata.sorted_tables:
            assert db.scalar(select(func.count()).select_from(table)), table.name


def test_the_migrations_make_exactly_the_tables(database: Database) -> None:
    upgrade(database)
    assert differences(database) == []


@pytest.mark.parametrize("revision", revisions()[:-1])
def test_going_back_to_a_revision_and_up_again_keeps_the_data(
    filled: Database, revision: str
) -> None:
    before = stored(filled)
    downgrade(filled, revision)
    older = stored(filled)
    assert shared(before, older) == shared(older, before)
    upgrade(filled)
    again = stored(filled)
    assert shared(before, older) == shared(again, older)
    assert {name: len(rows) for name, rows in again.items()} == {
        name: len(rows) if name in older else 0 for name, rows in before.items()
    }
    assert differences(filled) == []


def test_step_by_step_down_to_nothing_and_up_again(filled: Database) -> None:
    steps = revisions()
    for revision in [*steps[-2::-1], "base"]:
        downgrade(filled, revision)
    assert not any(stored(filled).values())
    for revision in steps:
        upgrade(filled, revision)
    assert differences(filled) == []
    with filled.writing() as db:
        fill(db)


def test_upgrading_twice_changes_nothing(filled: Database) -> None:
    before = stored(filled)
    upgrade(filled)
    assert stored(filled) == before


def test_citations_from_before_they_were_counted_are_counted(filled: Database) -> None:
    downgrade(filled, "0005")
    upgrade(filled)
    with filled.session() as db:
        assert list(db.scalars(select(Paper.times_cited).order_by(Paper.id))) == [0, 1, 0]
