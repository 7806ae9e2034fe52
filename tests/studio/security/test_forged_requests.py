"""Every route that changes something wants a session and its token; found by walking the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.studio.support.people import People

SAFE = {"GET", "HEAD", "OPTIONS"}
EXAMPLES = {"slug": "x", "kind": "useful", "token": "x", "anchor": "x", "name": "x"}


def unsafe_routes() -> Iterator[tuple[str, str]]:
    """Method and a possible path of every route that is not for reading only."""
    from exactformer.studio.app import ROUTERS

    for route in (route for router in ROUTERS for route in router.routes):
        path = re.sub(r"{(\w+)(?::\w+)?}", lambda m: EXAMPLES.get(m[1], "1"), route.path)
        yield from ((method, path) for method in sorted(route.methods - SAFE))


def test_there_are_routes_to_try() -> None:
    found = set(unsafe_routes())
    assert {("POST", "/login"), ("POST", "/logout"), ("POST", "/admin/users/1/role")} <= found


def test_nothing_changes_without_a_session(people: People) -> None:
    for method, path in unsafe_routes():
        client = people.visitor.client
        assert client.request(method, path, json={}).status_code == 403, (method, path)


def test_nothing_changes_without_the_sessions_token(people: People) -> None:
    admin = people.admin
    del admin.client.headers["X-CSRF-Token"]
    for method, path in unsafe_routes():
        answer = admin.client.request(method, path, data={"csrf_token": "x" * 43})
        assert answer.status_code == 403, (method, path)
        assert "token" in answer.text


def test_a_token_that_is_not_exactly_the_sessions_is_wrong(people: People) -> None:
    admin = people.admin
    for wrong in ("", "x" * 43, people.reader.csrf, admin.csrf[:-1], admin.csrf + "x"):
        admin.client.headers["X-CSRF-Token"] = wrong
        assert admin.client.post("/logout").status_code == 403
        assert admin.client.post("/logout", data={"csrf_token": wrong}).status_code == 403


def test_the_token_counts_as_a_field_of_either_kind_of_form(people: People) -> None:
    for name, pack in {"data": str, "files": lambda token: (None, token)}.items():
        reader = people.new()
        del reader.client.headers["X-CSRF-Token"]
        form: Any = {name: {"csrf_token": pack(reader.csrf)}}
        assert reader.client.post("/logout", **form).status_code == 303


def test_a_token_sent_as_a_file_or_in_the_address_does_not_count(people: People) -> None:
    reader = people.reader
    del reader.client.headers["X-CSRF-Token"]
    as_file = {"csrf_token": ("token.txt", reader.csrf.encode())}
    assert reader.client.post("/logout", files=as_file).status_code == 403
    assert reader.client.post(f"/logout?csrf_token={reader.csrf}").status_code == 403
    assert reader.client.post("/logout", json={"csrf_token": reader.csrf}).status_code == 403


def test_a_form_with_a_field_that_nobody_reads_is_refused(people: People) -> None:
    for method, path in unsafe_routes():
        if path.startswith("/api/"):
            continue
        answer = people.admin.client.request(method, path, data={"boddy": "What took an hour"})
        assert answer.status_code == 422, (method, path)
        assert "boddy" in answer.text


def test_what_was_written_when_a_session_ended_is_given_back(people: People) -> None:
    reader = people.new()
    reader.client.cookies.clear()
    form = {"csrf_token": reader.csrf, "body": "What took an <hour>", "password": "may be words"}
    page = reader.client.post("/papers/x/comments", data=form)
    assert page.status_code == 403
    assert "What took an &lt;hour&gt;</textarea>" in page.text
    assert "may be words" not in page.text
    assert 'href="/login"' in page.text
