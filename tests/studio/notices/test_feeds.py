"""Feeds: valid Atom, the same for everybody, nothing private in it, kept while nothing is new."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from tests.studio.support.payloads import PAYLOADS

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"
ATOM = "{http://www.w3.org/2005/Atom}"
FEEDS = ("/feeds/papers.atom", "/feeds/claims.atom", f"{FANG}/activity.atom")


def entries(client: Any, path: str) -> list[Any]:
    """The entries of a feed, which has all that Atom asks for."""
    answer = client.get(path)
    assert answer.headers["content-type"].startswith("application/atom+xml")
    feed = fromstring(answer.content)
    assert feed.tag == f"{ATOM}feed"
    found = feed.findall(f"{ATOM}entry")
    for part in (feed, *found):
        assert all(part.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated"))
    ids = [entry.findtext(f"{ATOM}id") for entry in found]
    assert len(set(ids)) == len(ids)
    return found


def test_feeds_have_what_is_there(client: Any) -> None:
    assert len(entries(client, FEEDS[0])) >= 40
    titles = [entry.findtext(f"{ATOM}title") for entry in entries(client, FEEDS[1])]
    assert "Table 1: three models learn a polynomial of degree five" in " ".join(titles)
    assert entries(client, FEEDS[2]) == []
    assert client.get("/papers/none/activity.atom").status_code == 404


def test_activity_has_what_everybody_may_read_and_nothing_else(people: Any) -> None:
    """Neither hidden nor deleted texts, not even for their author or an admin."""
    reader, curator = people.reader.client, people.curator.client
    ids = [
        reader.post(f"/api/v1{FANG}/comments", json={"body": body}).json()["id"]
        for body in ("seen **well**", "deleted word", "hidden word")
    ]
    reader.delete(f"/api/v1/comments/{ids[1]}")
    flag = curator.post(f"/api/v1/comments/{ids[2]}/flags", json={"reason": "why"}).json()
    curator.put(f"/api/v1/moderation/flags/{flag['id']}", json={"state": "upheld", "note": ""})
    people.other.client.post(f"/api/v1{FANG}/reviews", json={"summary": "Sound.", "confidence": 3})
    feeds = {
        person.client.get(FEEDS[2]).text
        for person in (people.visitor, people.reader, people.curator, people.admin)
    }
    (text,) = feeds
    assert "deleted word" not in text
    assert "hidden word" not in text
    contents = [entry.findtext(f"{ATOM}content") for entry in entries(reader, FEEDS[2])]
    assert any("<strong>well</strong>" in content for content in contents)
    assert any("Sound." in content for content in contents)


def test_payloads_stay_text(people: Any) -> None:
    client = people.reader.client
    client.post("/account/name", data={"name": "]]></name><script>alert(1)</script>"})
    for payload in (*PAYLOADS[::8], "a \x0b control \uffff character"):
        answer = client.post(f"/api/v1{FANG}/comments", json={"body": payload})
        assert answer.status_code == 201
    found = entries(client, FEEDS[2])
    assert {child.tag for entry in found for child in entry} <= {
        ATOM + name for name in ("id", "title", "updated", "link", "author", "content")
    }
    for entry in found:
        assert "<script" not in entry.findtext(f"{ATOM}content").lower()
        assert entry.find(f"{ATOM}content").get("type") == "html"


@pytest.mark.parametrize("path", FEEDS)
def test_a_feed_that_is_known_is_not_sent_again(people: Any, path: str) -> None:
    client = people.visitor.client
    first = client.get(path)
    assert first.headers["cache-control"] == "public, max-age=60"
    assert "set-cookie" not in first.headers
    again = client.get(path, headers={"If-None-Match": f'"x", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    people.reader.client.post(f"/api/v1{FANG}/comments", json={"body": "news"})
    changed = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == (200 if "activity" in path else 304)
