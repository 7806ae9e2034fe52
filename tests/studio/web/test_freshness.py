"""A visitor's browser is told that a page has not changed, and never when it has."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from exactformer.studio.evidence.evidence import changed_at
from exactformer.studio.storage.engine import Database
from exactformer.studio.web.freshness import Freshness
from tests.studio.support.event_loops import complete

PAGE = "/papers/fang-2022-attention-enables-zero-approximation-error"


def asked_again(client: Any, path: str, tag: str) -> int:
    return int(client.get(path, headers={"If-None-Match": tag}).status_code)


@pytest.mark.parametrize("path", ["/", "/papers?q=attention", PAGE, "/people/1", "/map", "/claims"])
def test_a_page_that_has_not_changed_is_not_sent_again(client: Any, path: str) -> None:
    first = client.get(path)
    tag = first.headers["ETag"]
    assert (first.headers["Cache-Control"], first.headers["Vary"]) == ("no-cache", "Cookie")
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert "Content-Security-Policy" in again.headers
    assert asked_again(client, path, '"other"') == 200
    assert asked_again(client, "/topics/attention?x", tag) != 304


def test_a_change_is_on_everybodys_next_page(people: Any) -> None:
    visitor, reader = people.visitor.client, people.new().client
    first = visitor.get(PAGE)
    assert "A new thought" not in first.text + reader.get(PAGE).text
    writer = people.new().client
    assert writer.post(f"{PAGE}/comments", data={"body": "A new thought"}).status_code == 303
    again = visitor.get(PAGE, headers={"If-None-Match": first.headers["ETag"]})
    for page in (again, visitor.get(PAGE), reader.get(PAGE), writer.get(PAGE)):
        assert page.status_code == 200
        assert "A new thought" in page.text


def test_pages_of_people_parts_refusals_and_other_paths_have_no_tag(
    people: Any, client: Any
) -> None:
    tag = client.get(PAGE).headers["ETag"]
    reader = people.reader.client.get(PAGE, headers={"If-None-Match": tag})
    assert (reader.status_code, reader.headers["Cache-Control"]) == (200, "no-store")
    for path, headers in (
        ("/papers", {"HX-Request": "true"}),
        ("/papers/none", {}),
        (f"{PAGE}/claims/theorem-3-5", {}),
        ("/login", {}),
        ("/export", {}),
    ):
        assert "ETag" not in client.get(path, headers=headers).headers, path


def test_no_page_has_the_token_or_the_name_of_another(people: Any) -> None:
    first, second = people.new(), people.new()
    pages = [person.client.get(PAGE).text for person in (first, second, first)]
    tokens = [set(re.findall('name="csrf_token" value="([^"]*)"', page)) for page in pages]
    assert [len(own) for own in tokens] == [1, 1, 1]
    assert tokens[0] == tokens[2] != tokens[1]
    assert first.handle not in pages[1]


async def _asked(studio: Any, headers: list[tuple[bytes, bytes]]) -> tuple[int, dict[bytes, bytes]]:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/papers"}
    await studio(scope | {"query_string": b"", "headers": headers}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


def test_a_page_begun_before_a_commit_and_ended_after_it_is_asked_for_again() -> None:
    change = [0]

    async def page(scope: Any, receive: Any, send: Any) -> None:
        change[0] += 1  # somebody commits meanwhile
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def newest() -> int:
        return change[0]

    async def run() -> None:
        studio = Freshness(page, newest, "session")
        _, headers = await _asked(studio, [])
        status, _ = await _asked(studio, [(b"if-none-match", headers[b"etag"])])
        assert status == 200

    complete(run())


def test_an_answer_that_sets_a_cookie_has_no_tag() -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        cookie = [(b"set-cookie", b"session=new")]
        await send({"type": "http.response.start", "status": 200, "headers": cookie})
        await send({"type": "http.response.body", "body": b""})

    async def newest() -> int:
        return 0

    _, headers = complete(_asked(Freshness(page, newest, "session"), []))
    assert b"etag" not in headers


def test_every_commit_of_any_process_is_a_change(database_url: str) -> None:
    here, there = Database(database_url), Database(database_url)
    with there.writing() as db:
        db.execute(text("CREATE TABLE t (x integer)"))
    seen = [here.newest()]
    assert here.newest() == seen[0]
    for database in (here, there, here):
        with database.writing() as db:
            db.execute(text("INSERT INTO t VALUES (1)"))
        assert here.newest() not in seen
        seen.append(here.newest())
    with here.session() as db:
        db.execute(text("SELECT * FROM t"))
    assert here.newest() == seen[-1]
    here.close()
    there.close()


def test_a_stored_run_that_is_written_again_is_a_change(tmp_path: Path) -> None:
    assert changed_at(None) == changed_at(tmp_path)
    assert changed_at(tmp_path / "none") is None
    file = tmp_path / "a.json"
    file.write_text("{}")
    before = changed_at(tmp_path)
    file.write_text("[]")
    os.utime(file, ns=(0, 1))
    assert changed_at(tmp_path) != before != changed_at(None)
