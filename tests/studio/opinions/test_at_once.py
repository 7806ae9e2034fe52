"""Many at the same moment, on both databases: one row each, and nobody's text is lost."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy.orm import Session

from exactformer.studio.errors import ConflictError
from exactformer.studio.opinions import quick, reviews
from exactformer.studio.opinions.reviews import ReviewDraft
from exactformer.studio.opinions.tables import Reaction, Review, ReviewVersion, Save, Vote
from exactformer.studio.storage import engine, migrations
from exactformer.studio.storage.engine import Database
from tests.studio.support.desks import Desk, fill_desk
from tests.waiting import PATIENCE

MANY = 6


@pytest.fixture
def database(database_url, monkeypatch):
    monkeypatch.setattr(engine, "BUSY_SECONDS", PATIENCE)
    database = Database(database_url)
    migrations.upgrade(database)
    yield database
    database.close()


@pytest.fixture
def stored(database):
    """A desk that is committed; its session is not used any more."""
    with database.writing() as db:
        desk = fill_desk(db)
    return desk


def at_once(act, many=MANY):
    """Run ``act`` in so many threads that start together; what each returned or raised."""
    start, outcomes = threading.Barrier(many), [None] * many

    def run(number):
        start.wait()
        try:
            outcomes[number] = act(number)
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def count(database, table):
    with database.session() as db:
        return Desk.count(Desk(db, *[None] * 6), table)


def test_votes_saves_and_reactions_of_one_reader_stay_one(database, stored):
    def act(number):
        with database.writing() as db:
            quick.vote(db, stored.ada, stored.paper, 1 if number % 2 else -1)
            quick.save(db, stored.ada, stored.paper, True)
            quick.react(db, stored.ada, stored.paper, "useful", True)

    assert at_once(act) == [None] * MANY
    assert [count(database, table) for table in (Vote, Save, Reaction)] == [1, 1, 1]


def test_of_first_reviews_at_once_one_is_written_and_the_others_are_given_back(database, stored):
    def act(number):
        with database.writing() as db:
            return reviews.write(
                db, stored.ada, stored.paper, ReviewDraft(summary=f"text {number}")
            ).summary

    outcomes = at_once(act)
    written = [each for each in outcomes if isinstance(each, str)]
    refused = [each for each in outcomes if isinstance(each, ConflictError)]
    assert (len(written), len(refused)) == (1, MANY - 1)
    assert {each.draft.summary for each in refused} | set(written) == {
        f"text {number}" for number in range(MANY)
    }
    assert count(database, Review) == count(database, ReviewVersion) == 1


@pytest.mark.postgres
def test_without_the_lock_of_writers_postgresql_itself_keeps_one_review(postgres):
    """Two transactions that both see no review: the unique key decides, not the order."""
    database = Database(postgres.new_database())
    migrations.upgrade(database)
    with database.writing() as db:
        stored = fill_desk(db)

    def act(number):
        with Session(database.engine) as db, db.begin():
            return reviews.write(
                db, stored.ada, stored.paper, ReviewDraft(summary=f"text {number}")
            ).summary

    outcomes = at_once(act)
    assert sum(isinstance(each, str) for each in outcomes) == 1
    assert sum(isinstance(each, ConflictError) for each in outcomes) == MANY - 1
    assert count(database, Review) == 1
    database.close()


def test_of_edits_at_once_one_is_written(database, stored):
    with database.writing() as db:
        number = reviews.write(db, stored.ada, stored.paper, ReviewDraft(summary="first")).id

    def act(each):
        with database.writing() as db:
            return reviews.edit(
                db, stored.ada, number, ReviewDraft(summary=f"edit {each}"), 1
            ).summary

    outcomes = at_once(act)
    assert sum(isinstance(each, str) for each in outcomes) == 1
    assert sum(isinstance(each, ConflictError) for each in outcomes) == MANY - 1
    assert count(database, ReviewVersion) == 2
