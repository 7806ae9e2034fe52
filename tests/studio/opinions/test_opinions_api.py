"""Opinions over the JSON API: the same rules as the pages, and nothing hidden in the answers."""

from __future__ import annotations

import pytest

from tests.studio.support.shelves import SLUG, add_paper

PAPER = f"/api/v1/papers/{SLUG}"
SECRET = "xyzzy-unspeakable"
REVIEW = {"summary": "Sound: $x^2$.", "confidence": 4}


@pytest.fixture(autouse=True)
def paper(app):
    return add_paper(app)


def ask(person, method, path, expected=200, **body):
    answer = person.client.request(method, path, json=body or None)
    assert answer.status_code == expected, answer.text
    return answer.json() if answer.content else None


def test_votes_reactions_and_saves_are_set_and_taken_back(people):
    reader = people.reader
    assert ask(reader, "PUT", f"{PAPER}/votes", value=-1) == {"likes": 0, "dislikes": 1, "mine": -1}
    assert ask(reader, "PUT", f"{PAPER}/votes", value=0) == {"likes": 0, "dislikes": 0, "mine": 0}
    shown = ask(reader, "PUT", f"{PAPER}/reactions/unclear")["items"]
    assert {"kind": "unclear", "count": 1, "mine": True} in shown
    shown = ask(reader, "DELETE", f"{PAPER}/reactions/unclear")["items"]
    assert {"kind": "unclear", "count": 0, "mine": False} in shown
    assert ask(reader, "PUT", f"{PAPER}/saves") == {"count": 1, "mine": True}
    assert ask(reader, "GET", "/api/v1/saves")["items"][0]["slug"] == SLUG
    assert ask(reader, "DELETE", f"{PAPER}/saves") == {"count": 0, "mine": False}
    ask(reader, "PUT", f"{PAPER}/votes", 422, value=2)
    ask(reader, "PUT", f"{PAPER}/reactions/boring", 422)
    ask(reader, "PUT", "/api/v1/papers/none/votes", 404, value=1)


def test_reviews_have_revisions(people):
    made = ask(people.reader, "POST", f"{PAPER}/reviews", 201, **REVIEW)
    assert made["parts"]["summary"]["html"].startswith("<p>Sound: <span class=")
    refused = ask(people.reader, "POST", f"{PAPER}/reviews", 409, **REVIEW)
    assert refused["draft"]["summary"] == REVIEW["summary"]
    place = f"/api/v1/reviews/{made['id']}"
    ask(people.reader, "PUT", place, **REVIEW | {"summary": "Second", "revision": 1})
    late = ask(people.reader, "PUT", place, 409, **REVIEW | {"summary": "Late", "revision": 1})
    assert (late["draft"]["summary"], late["revision"]) == ("Late", 2)
    versions = ask(people.visitor, "GET", f"{place}/versions")
    assert [each["summary"] for each in versions["items"]] == [REVIEW["summary"], "Second"]
    ask(people.other, "PUT", place, 403, **REVIEW | {"revision": 2})
    ask(people.other, "DELETE", place, 403)
    ask(people.reader, "DELETE", place, 204)
    ask(people.curator, "GET", place, 404)
    assert ask(people.reader, "GET", place)["state"] == "deleted"
    assert ask(people.reader, "PUT", f"{PAPER}/reviews/mine", **REVIEW)["revision"] == 3


def test_comments_have_kinds_answers_and_revisions(people):
    made = ask(people.reader, "POST", f"{PAPER}/comments", 201, body="#table-1?", kind="question")
    place = f"/api/v1/comments/{made['id']}"
    answer = ask(people.other, "POST", f"{PAPER}/comments", 201, body="Yes", parent_id=made["id"])
    assert answer["parent_id"] == made["id"]
    assert ask(people.visitor, "GET", f"{PAPER}/comments?kind=question")["total"] == 1
    assert ask(people.visitor, "GET", f"{PAPER}/comments?claim=table-1")["total"] == 1
    assert ask(people.visitor, "GET", f"{PAPER}/comments?limit=1&offset=1")["total"] == 2
    ask(people.reader, "PUT", place, body="Changed", revision=1)
    assert ask(people.reader, "PUT", place, 409, body="Late", revision=1)["draft"]["body"] == "Late"
    assert ask(people.visitor, "GET", f"{place}/versions")["total"] == 2
    ask(people.other, "PUT", place, 403, body="mine", revision=2)
    ask(people.reader, "DELETE", place, 204)
    assert [each["id"] for each in ask(people.other, "GET", f"{PAPER}/comments")["items"]] == [
        answer["id"]
    ]
    ask(people.other, "GET", place, 404)


def test_hidden_words_never_reach_others(people):
    comment = ask(people.reader, "POST", f"{PAPER}/comments", 201, body=SECRET)["id"]
    review = ask(people.reader, "POST", f"{PAPER}/reviews", 201, summary=SECRET, confidence=1)["id"]
    for place in (f"comments/{comment}", f"reviews/{review}"):
        flag = ask(people.other, "POST", f"/api/v1/{place}/flags", 201, reason="rude")["id"]
        decision = {"state": "upheld", "note": "be kind"}
        ask(people.curator, "PUT", f"/api/v1/moderation/flags/{flag}", **decision)
        for stranger in (people.visitor, people.other):
            ask(stranger, "GET", f"/api/v1/{place}", 404)
            ask(stranger, "GET", f"/api/v1/{place}/versions", 404)
            ask(stranger, "GET", f"/api/v1/moderation/flags/{flag}", 403 if stranger.id else 401)
        assert ask(people.reader, "GET", f"/api/v1/{place}")["hidden_because"] == "be kind"
        ask(people.curator, "GET", f"/api/v1/{place}")
    for stranger in (people.visitor, people.other):
        for path in (f"{PAPER}/comments", f"{PAPER}/reviews", f"/api/v1/search?q={SECRET}"):
            answer = stranger.client.get(path)
            assert answer.status_code in (200, 404)
            assert SECRET not in answer.text.replace(f'"{SECRET}"', "")
    queue = ask(people.curator, "GET", "/api/v1/moderation/flags?state=upheld")
    assert queue["total"] == 2
    assert SECRET in str(queue)


def test_collections_are_their_owners_and_whose_who_have_the_link(people, paper):
    made = ask(people.reader, "POST", "/api/v1/collections", 201, title="Shelf")
    assert made["token"] is None
    place = f"/api/v1/collections/{made['id']}"
    ask(people.reader, "POST", f"{place}/items", 201, slug=SLUG, note=SECRET)
    ask(people.reader, "POST", f"{place}/items", 409, slug=SLUG)
    for stranger in (people.other, people.curator, people.admin):
        ask(stranger, "GET", place, 404)
        ask(stranger, "PATCH", place, 404, title="mine")
        ask(stranger, "DELETE", f"{place}/items/{paper}", 404)
        assert ask(stranger, "GET", "/api/v1/collections")["total"] == 0
    token = ask(people.reader, "PATCH", place, visibility="link")["token"]
    shared = ask(people.visitor, "GET", f"/api/v1/shared/{token}")
    assert shared["items"][0]["note"] == SECRET
    assert not {"id", "token", "visibility"} & set(shared)
    again = ask(people.reader, "POST", f"{place}/link")["token"]
    ask(people.visitor, "GET", f"/api/v1/shared/{token}", 404)
    ask(people.visitor, "GET", f"/api/v1/shared/{again}")
    changed = ask(people.reader, "PATCH", f"{place}/items/{paper}", position=9, note="new")
    assert changed["items"][0]["note"] == "new"
    assert ask(people.reader, "DELETE", f"{place}/items/{paper}")["items"] == []
    ask(people.reader, "DELETE", place, 204)
    ask(people.reader, "GET", place, 404)


def test_a_collection_is_exported_in_its_order_to_those_who_may_read_it(people, app):
    other = add_paper(app, "another-paper")
    made = ask(people.reader, "POST", "/api/v1/collections", 201, title="Räume & Töne")
    place = f"/api/v1/collections/{made['id']}"
    for slug in (SLUG, "another-paper"):
        ask(people.reader, "POST", f"{place}/items", 201, slug=slug, note=SECRET)
    ask(people.reader, "PATCH", f"{place}/items/{other}", position=0)
    for stranger, status in ((people.visitor, 401), (people.other, 404), (people.admin, 404)):
        ask(stranger, "GET", f"{place}/export?format=bibtex", status)
    token = ask(people.reader, "PATCH", place, visibility="link")["token"]
    for person, path in ((people.reader, place), (people.visitor, f"/api/v1/shared/{token}")):
        for form in ("json", "bibtex", "csv"):
            answer = person.client.get(f"{path}/export?format={form}")
            assert answer.status_code == 200
            assert "raume-tone." in answer.headers["Content-Disposition"]
            assert answer.text.index("Another paper") < answer.text.index("A paper to talk about")
    ask(people.reader, "PATCH", place, visibility="private")
    ask(people.visitor, "GET", f"/api/v1/shared/{token}/export", 404)


def test_the_preview_renders_as_pages_do(people):
    answer = ask(people.reader, "POST", "/api/v1/markup", text="#table-1 <b>", paper=SLUG)
    assert answer["html"].startswith(f'<p><a href="/papers/{SLUG}#table-1"')
    assert "<b>" not in answer["html"]
