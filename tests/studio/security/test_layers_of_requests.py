"""Headers on every answer, bodies counted while they are read, HEAD where GET is."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from exactformer.studio.security.middleware import BodyLimit
from tests.studio.support.event_loops import complete
from tests.studio.support.people import People

STRICT = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'self'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


ANSWERS = """
200 GET /
200 GET /login
401 GET /account
404 GET /nowhere
403 POST /logout
405 DELETE /login
200 GET /static/base.css
404 GET /static/../app.py
404 GET /static/%2e%2e/app.py
200 GET /api/v1/playground/polynomial/parse?p=x
404 GET /api/v1/nothing
"""


def test_every_answer_is_strict(client: Any) -> None:
    for line in ANSWERS.split("\n")[1:-1]:
        status, method, path = line.split()
        answer = client.request(method, path)
        assert answer.status_code == int(status), line
        assert {name: answer.headers[name] for name in STRICT} == STRICT
        assert "camera=()" in answer.headers["permissions-policy"]


def test_a_mistake_of_ours_is_strict_too_and_tells_nothing(app: Any) -> None:
    from starlette.testclient import TestClient

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("secret")

    @app.get("/api/v1/broken")
    def broken_api() -> None:
        raise RuntimeError("secret")

    with TestClient(app, raise_server_exceptions=False) as client:
        page, programs = client.get("/broken"), client.get("/api/v1/broken")
    for answer in (page, programs):
        assert answer.status_code == 500
        assert {name: answer.headers[name] for name in STRICT} == STRICT
        assert "secret" not in answer.text
    assert programs.json()["error"]["status"] == 500


def test_pages_of_people_are_not_stored_by_browsers(people: People) -> None:
    assert people.reader.client.get("/account").headers["cache-control"] == "no-store"


def test_files_asked_for_by_version_are_kept_and_others_checked(client: Any) -> None:
    kept = client.get("/static/base.css?v=0123")
    assert "immutable" in kept.headers["cache-control"]
    checked = client.get("/static/base.css")
    assert checked.headers["cache-control"] == "no-cache"
    again = client.get("/static/base.css", headers={"If-None-Match": checked.headers["etag"]})
    assert again.status_code == 304


def test_no_page_holds_inline_scripts_or_styles(people: People) -> None:
    for path in ("/", "/login", "/register", "/account", "/admin/users", "/audit"):
        text = people.admin.client.get(path).text
        assert "<style" not in text
        assert ' style="' not in text
        assert " onclick=" not in text
        assert "<script>" not in text
        assert "javascript:" not in text


def test_head_answers_as_get_does_without_the_body(client: Any) -> None:
    for path in ("/", "/login", "/export", "/static/base.css", "/nowhere"):
        got, asked = client.get(path), client.head(path)
        assert asked.status_code == got.status_code
        assert asked.content == b""
        assert asked.headers["content-type"] == got.headers["content-type"]


def read_through(pieces: list[bytes], announced: bytes | None = None, path: str = "/") -> list[int]:
    """The sizes of what an application gets to read where ten bytes are allowed, and then 413."""
    read: list[int] = []
    waiting = list(pieces)

    async def receive() -> Any:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            try:
                message = await receive()
            except HTTPException as refused:
                read.append(refused.status_code)
                return
            read.append(len(message["body"]))
            more = message["more_body"]

    layer = BodyLimit(application, 10)
    headers = [] if announced is None else [(b"content-length", announced)]
    scope = {"type": "http", "path": path, "headers": headers}
    complete(layer(scope, receive, None))  # type: ignore[arg-type]
    return read


def test_a_body_of_exactly_the_limit_is_read() -> None:
    assert read_through([b"12345", b"67890"]) == [5, 5]


def test_reading_stops_where_the_limit_is_passed() -> None:
    assert read_through([b"12345", b"678901", b"x" * 1000]) == [5, 413]


def test_a_body_that_announces_too_much_is_not_read_at_all() -> None:
    assert read_through([b"1"], b"11") == [413]
    assert read_through([b"1"], b"9" * 5000) == [413]


def test_a_body_that_announces_less_than_it_sends_is_stopped() -> None:
    assert read_through([b"x" * 11], b"1") == [413]


def test_a_redirect_within_the_site_does_not_name_the_host_it_was_told(client: Any) -> None:
    for host in ("evil.example", "evil.example:80", "[::1]"):
        answer = client.get("/papers/?q=x", headers={"Host": host})
        assert (answer.status_code, answer.headers["location"]) == (307, "/papers?q=x")


def test_other_redirects_stay_as_they_are() -> None:
    from exactformer.studio.security.middleware import _path_only

    scope = {"scheme": "http", "headers": [(b"host", b"here")]}
    for target in ("https://here/x", "http://there/x", "/x", "http://here//there/x", "x"):
        assert _path_only(target, scope) == target
