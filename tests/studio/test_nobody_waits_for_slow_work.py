"""What takes long is done when others may write again: rendering texts, comparing with the library.

A hostile text takes a good part of a second, a preview of thousands of records several.
"""

from __future__ import annotations

import pytest

from exactformer.studio.library import imports
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


def test_previews_of_imports(app, people, monkeypatch):
    preview, previewed = imports.preview, []

    def watched(db, records):
        assert not app.state.database._writer.locked()
        previewed.append(len(records))
        return preview(db, records)

    monkeypatch.setattr(imports, "preview", watched)
    file = {"file": ("one.bib", b"@article{a, title={A title of its own}}")}
    answer = people.curator.client.post("/api/v1/imports", files=file)
    assert (answer.status_code, answer.json()["items"][0]["new"]) == (201, True)
    assert previewed == [1]


def test_a_file_that_cannot_be_read_needs_no_writer(app, people, monkeypatch):
    curator = people.curator
    monkeypatch.setattr(app.state.database, "writing", None)
    answer = curator.client.post("/imports", files={"file": ("none.bib", b"no format")})
    assert answer.status_code == 422
