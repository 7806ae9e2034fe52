"""Texts are rendered when others may write again: a hostile one takes a good part of a second."""

from __future__ import annotations

import pytest

from exactformer.studio.web import markup
from tests.studio.support.shelves import SLUG, add_paper
from tests.studio.support.worlds import done, number_in

HTMX = {"HX-Request": "true"}
PAGE = f"/papers/{SLUG}"


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


def test_of_reviews_and_comments(people, rendered):
    reader = people.reader
    for summary in ("Sound.", "Second", "Third"):
        done(reader, f"{PAGE}/review", summary=summary)
    done(reader, PAGE, f"{PAGE}/comments", body="A remark")
    done(reader, "/comments/1/edit", body="Changed")
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
    item = number_in(client.get("/collections/1").text, "/collections/1/items/")
    place = f"/collections/1/items/{item}"
    for act, data in (("note", {"note": "Read *this*"}), ("move", {"position": 0}), ("remove", {})):
        assert client.post(f"{place}/{act}", data=data, headers=HTMX).status_code == 200
    assert "Read *this*" in rendered


def test_a_text_that_cannot_be_read_needs_no_writer(app, people, monkeypatch):
    curator = people.curator
    monkeypatch.setattr(app.state.database, "writing", None)
    assert (
        curator.client.post("/propose", data={"what": "@article{a, title={open"}).status_code == 422
    )
