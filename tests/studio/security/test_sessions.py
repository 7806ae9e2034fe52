"""Sessions end: when their time is over, when their account is shut out, when one says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from exactformer.studio.accounts.tables import LoginSession, User
from exactformer.studio.security import sessions
from exactformer.studio.settings import Rate
from exactformer.studio.storage.base import now
from tests.studio.support.people import People


def test_a_session_ends_when_its_time_is_over(app: Any, people: People) -> None:
    reader = people.reader
    assert reader.client.get("/account").status_code == 200
    with app.state.database.writing() as db:
        db.execute(update(LoginSession).values(expires_at=now() - timedelta(seconds=1)))
    assert reader.client.get("/account").status_code == 401


def test_a_new_session_clears_away_those_that_are_over(app: Any, people: People) -> None:
    assert people.reader.client.get("/account").status_code == 200
    with app.state.database.writing() as db:
        db.execute(update(LoginSession).values(expires_at=now() - timedelta(seconds=1)))
    people.visitor.take_session()
    with app.state.database.session() as db:
        assert db.scalar(select(func.count(LoginSession.token_hash))) == 1


def test_an_account_that_is_shut_out_loses_its_sessions_at_once(app: Any, people: People) -> None:
    reader, admin = people.reader, people.admin
    answer = admin.client.post(f"/admin/users/{reader.id}/disabled", data={"disabled": "true"})
    assert answer.status_code == 303
    with reader.unchanged():
        assert reader.client.get("/account").status_code == 401
    admin.client.post(f"/admin/users/{reader.id}/disabled", data={"disabled": "false"})
    assert reader.client.get("/account").status_code == 401


def test_a_disabled_account_is_nobody_even_with_a_session(app: Any, people: People) -> None:
    reader = people.reader
    with app.state.database.writing() as db:
        db.execute(update(User).where(User.id == reader.id).values(disabled=True))
    assert reader.client.get("/account").status_code == 401
    assert reader.client.post("/account/name", data={"name": "X"}).status_code == 403


def test_a_role_that_is_taken_away_is_gone_with_the_next_request(app: Any, people: People) -> None:
    curator = people.curator
    assert curator.client.get("/audit").status_code == 200
    with app.state.database.writing() as db:
        db.execute(update(User).where(User.id == curator.id).values(role="reader"))
    assert curator.client.get("/audit").status_code == 403


@pytest.mark.parametrize("cookie", ["", "x", "a" * 43, "é".encode().decode("latin-1"), "x" * 4000])
def test_a_cookie_nobody_was_given_is_a_visitor(client: Any, app: Any, cookie: str) -> None:
    name = sessions.cookie_name(app.state.settings)
    answer = client.get("/", headers={"Cookie": f"{name}={cookie}".encode("latin-1")})
    assert answer.status_code == 200
    assert "Log in" in answer.text


def test_reading_gives_no_cookie(client: Any) -> None:
    assert "set-cookie" not in client.get("/").headers
    assert "set-cookie" in client.get("/login").headers


def test_a_browsers_name_is_kept_short_and_printable(app: Any) -> None:
    with app.state.database.writing() as db:
        made = sessions.begin(db, app.state.settings, None, "A\x00B\r\n" + "x" * 500)
        row = db.get_one(LoginSession, made.token_hash)
    assert row.agent == "AB" + "x" * 198


def test_nobody_fills_the_table_with_sessions(settings: Any) -> None:
    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    app = create_app(replace(settings, visit_rate=Rate(3, 3600)))
    with TestClient(app) as client:
        for path, status in [
            ("/login", 200),
            ("/account", 401),
            ("/register", 200),
            ("/login", 429),
            ("/account", 429),
            ("/register", 429),
            ("/", 200),
        ]:
            client.cookies.clear()
            answer = client.get(path)
            assert answer.status_code == status, path
        with app.state.database.session() as db:
            assert db.scalar(select(func.count(LoginSession.token_hash))) == 3
