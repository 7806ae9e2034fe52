"""A desk of one: everybody is the admin, but no other site can speak in her name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from exactformer.studio.app import create_app
from exactformer.studio.errors import BusyError
from tests.studio.support.forms import TOKEN, form_of, send
from tests.studio.support.people import Person


@pytest.fixture
def desk(settings: Any) -> Iterator[TestClient]:
    app = create_app(replace(settings, single_user=True))
    with TestClient(app, base_url="http://localhost:8000", follow_redirects=False) as client:
        yield client


def test_whoever_opens_a_page_is_the_admin_and_gets_a_session(desk: TestClient) -> None:
    page = desk.get("/")
    assert "set-cookie" in page.headers
    assert "Log in" not in page.text
    assert desk.get("/audit").status_code == 200
    assert "Log in" not in desk.get("/no/such/page").text
    account = desk.get("/account").text
    assert (
        '<span class="mono">desk</span> <span class="badge badge--accent">admin</span>' in account
    )


def test_a_first_visit_that_can_write_no_session_is_asked_to_come_back(
    desk: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy() -> None:
        raise BusyError("others are writing")

    monkeypatch.setattr(desk.app.state.database, "writing", busy)
    page = desk.get("/")
    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert "thers are writing" in page.text
    monkeypatch.undo()
    assert desk.get("/").status_code == 200


def test_changes_still_need_the_sessions_token(desk: TestClient) -> None:
    assert desk.post("/account/name", data={"name": "Ada"}).status_code == 403
    person = Person("admin", desk)
    page = desk.get("/account")
    assert desk.post("/account/name", data={"name": "Ada"}).status_code == 403
    assert send(person, page, "/account/name", name="Ada").status_code == 303
    assert "Ada" in desk.get("/account").text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
def test_a_site_whose_name_points_to_this_machine_is_not_answered(
    desk: TestClient, host: str
) -> None:
    assert desk.get("/", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9000", "[::1]:8000"])
def test_the_names_of_this_machine_are(desk: TestClient, host: str) -> None:
    assert desk.get("/", headers={"Host": host}).status_code == 200


def test_there_is_nothing_to_register_or_to_log_in(desk: TestClient) -> None:
    (token,) = form_of(desk.get("/account"), "/account/name")[TOKEN]
    form = {"handle": "eve", "password": "x" * 12, "csrf_token": token}
    for path in ("/register", "/login", "/logout", "/account/password"):
        assert desk.post(path, data=form).status_code in (403, 422)
    assert "/logout" not in desk.get("/account").text


def test_the_desk_cannot_log_in_where_others_can(client: Any, desk: TestClient) -> None:
    visitor = Person("visitor", client)
    for password in ("!", "", "x" * 12):
        assert send(visitor, "/login", handle="desk", password=password).status_code == 422


def test_a_session_of_somebody_else_is_not_taken_for_the_desks(
    settings: Any, people: Any, app: Any
) -> None:
    reader = people.reader
    with TestClient(
        create_app(replace(settings, single_user=True)), base_url="http://localhost"
    ) as desk:
        for name, value in reader.cookies.items():
            desk.cookies.set(name, value)
        desk.headers["X-CSRF-Token"] = reader.csrf
        assert desk.post("/account/name", data={"name": "Eve"}).status_code == 403
