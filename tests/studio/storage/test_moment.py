"""Times keep their zone, whatever the database thinks of zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import select
from sqlalchemy.exc import StatementError

from exactformer.studio.accounts.tables import LoginSession
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database


def session_at(time: datetime) -> LoginSession:
    return LoginSession(token_hash="0" * 64, csrf_token="x", created_at=time, expires_at=time)


def test_a_time_comes_back_as_the_same_instant_in_utc(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    time = datetime(2026, 3, 29, 2, 30, 15, 123456, timezone(timedelta(hours=5, minutes=45)))
    with database.writing() as db:
        db.add(session_at(time))
    with database.session() as db:
        found = db.scalars(select(LoginSession)).one().created_at
    database.close()
    assert found == time
    assert found.tzinfo is UTC


def test_times_are_compared_by_instant_and_not_by_text(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with database.writing() as db:
        db.add(session_at(noon))
    east = timezone(timedelta(hours=9))
    with database.session() as db:
        for moved, expected in [(-1, 1), (0, 0), (1, 0)]:
            limit = (noon + timedelta(seconds=moved)).astimezone(east)
            later = select(LoginSession).where(LoginSession.expires_at > limit)
            assert len(db.scalars(later).all()) == expected
    database.close()


def test_a_time_without_a_zone_is_refused(database_url: str) -> None:
    database = Database(database_url)
    migrations.upgrade(database)
    with pytest.raises(StatementError, match="needs a zone"), database.writing() as db:
        db.add(session_at(datetime(2026, 1, 1)))
    database.close()
