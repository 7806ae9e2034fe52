"""Texts are rendered when others may write again: a hostile one takes a good part of a second."""

from __future__ import annotations

import pytest

from exactformer.studio.web import markup
from tests.studio.support.shelves import SLUG, add_paper

HTMX = {"HX-Request": "true"}
API, PAGE = f"/api/v1/papers/{SLUG}", f"/papers/{SLUG}"
REVIEW = {"summary": "Sound.", "confidence": 4}


@pytest.fixture
def rendered(app, monkeypatch):
    """The texts that were rendered, none of them while something is written."""
    add_paper(app)
    render, texts = markup.render, []

    def watched(text, around=None):
        assert not app.state.database._writer.locked()
        texts.append(text)
        return render(text, around)

    monkeypatch.setattr(markup, "render", watched)
    return texts


def test_of_programs(people, rendered):
    client = people.reader.client
    review = client.post(f"{API}/reviews", json=REVIEW).json()
    second = REVIEW | {"summary": "Second", "revision": 1}
    assert client.put(f"/api/v1/reviews/{review['id']}", json=second).status_code == 200
    assert client.put(f"{API}/reviews/mine", json=REVIEW | {"summary": "Third"}).status_code == 200
    comment = client.post(f"{API}/comments", json={"body": "A remark"}).json()
    changed = {"body": "Changed", "revision": 1}
    assert client.put(f"/api/v1/comments/{comment['id']}", json=changed).status_code == 200
    assert {"Sound.", "Second", "Third", "A remark", "Changed"} <= set(rendered)


def test_of_comments_on_pages(people, rendered):
    client = people.reader.client
    answer = client.post(f"{PAGE}/comments", data={"body": "A remark"}, headers=HTMX)
    assert answer.headers["HX-Retarget"] == "#discussion"
    reply = {"body": "A reply", "parent_id": 1}
    assert "A reply" in client.post(f"{PAGE}/comments", data=reply, headers=HTMX).text
    edit = {"body": "Changed", "revision": 1}
    assert "Changed" in client.post("/comments/1/edit", data=edit, headers=HTMX).text
    assert client.post("/comments/2/delete", headers=HTMX).status_code == 200
    assert {"A remark", "A reply", "Changed"} <= set(rendered)


def test_of_notes_in_collections(people, rendered):
    client = people.reader.client
    assert client.post(f"{PAGE}/collect", data={"title": "Shelf"}).status_code == 303
    item = client.get("/api/v1/collections/1").json()["items"][0]["paper_id"]
    place = f"/collections/1/items/{item}"
    for act, data in (("note", {"note": "Read *this*"}), ("move", {"position": 0}), ("remove", {})):
        assert client.post(f"{place}/{act}", data=data, headers=HTMX).status_code == 200
    assert "Read *this*" in rendered
