"""Refusals say the same to everybody: a page to people, a part to htmx, JSON to our scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError
from starlette.testclient import TestClient

from exactformer.studio import errors
from exactformer.studio.errors import StudioError
from tests.studio.support.forms import problem
from tests.studio.support.people import People

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
REFUSALS = [kind for kind in KINDS if issubclass(kind, StudioError) and kind is not StudioError]


@pytest.fixture
def refusing(app: Any) -> Iterator[TestClient]:
    def refuse(kind: str) -> None:
        if kind == "collision":
            raise IntegrityError("INSERT secret", {}, Exception("secret"))
        if kind == "gone":
            raise OperationalError("SELECT secret", {}, Exception("secret"))
        raise getattr(errors, kind)("for <reasons>")

    before = list(app.router.routes)  # the first app of a worker describes the API for all others
    app.get("/refuse/{kind}")(refuse)
    app.get("/api/v1/refuse/{kind}")(refuse)
    with TestClient(app, follow_redirects=False) as client:
        yield client
    app.router.routes[:] = before


def test_each_refusal_has_its_status_in_every_form(refusing: TestClient) -> None:
    for kind in REFUSALS:
        programs = refusing.get(f"/api/v1/refuse/{kind.__name__}")
        assert programs.json() == {"error": {"status": kind.status, "message": "for <reasons>"}}
        page = refusing.get(f"/refuse/{kind.__name__}")
        part = refusing.get(f"/refuse/{kind.__name__}", headers={"HX-Request": "true"})
        assert {answer.status_code for answer in (programs, page, part)} == {kind.status}
        assert "for &lt;reasons&gt;" in page.text
        assert "<h1>" in page.text
        assert "<html" not in part.text


def test_a_page_that_is_not_there_is_still_a_page(client: Any) -> None:
    page = client.get("/no/such/page")
    assert page.status_code == 404
    assert "Nothing here" in page.text
    assert client.get("/api/v1/nothing").json()["error"]["status"] == 404


def test_who_is_logged_in_is_so_on_pages_that_are_not_there(people: People) -> None:
    assert "Log in" in people.visitor.client.get("/no/such/page").text
    page = people.reader.client.get("/no/such/page")
    assert "Log out" in page.text
    assert "set-cookie" not in page.headers


@pytest.mark.parametrize(("kind", "status"), [("collision", 409), ("gone", 503)])
def test_what_the_database_says_stays_here(
    refusing: TestClient, kind: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (f"/refuse/{kind}", f"/api/v1/refuse/{kind}"):
        answer = refusing.get(path)
        assert answer.status_code == status
        assert "secret" not in answer.text


def test_slow_down_says_when_to_come_back(refusing: TestClient) -> None:
    assert refusing.get("/refuse/TooManyError").headers["Retry-After"] == "1"


def test_what_is_invalid_is_named(people: People) -> None:
    for address in ("/admin/users?page=0", "/papers?year=-1", "/papers?page=x", "/map?limit=201"):
        answer = people.admin.client.get(address)
        assert answer.status_code == 422
        name = address.partition("?")[2].partition("=")[0]
        assert problem(answer).startswith(f"{name}: ")


def test_bodies_that_are_no_form_or_hold_odd_text_are_refused(people: People) -> None:
    client = people.visitor.take_session().client
    plain, parts = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
    part = b'--b\r\nContent-Disposition: form-data; name="handle"\r\n\r\n'
    for kind, body in (
        (plain, b"handle=a%00b&password=x"),
        (plain, b"handle=%ed%a0%80&password=x"),
        (plain, b"\xff\xfe"),
        (plain, b"handle=a&" * 5000),
        (parts, b"handle=a"),
        (parts, part + b"a"),
        (parts, part + b"a\0b\r\n--b--\r\n"),
        (parts, (part + b"a\r\n") * 5000 + b"--b--\r\n"),
        ("multipart/form-data", part + b"a\r\n--b--\r\n"),
        ("application/json", b'{"handle": "a", "password": "x"}'),
        ("application/json", b"[" * 100_000),
    ):
        answer = client.post("/login", content=body, headers={"Content-Type": kind})
        assert 400 <= answer.status_code < 500, (kind, body[:80])
        assert problem(answer), (kind, body[:80])
