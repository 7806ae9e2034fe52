"""Readers share a page, and each gets exactly the page that would be rendered for her alone."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from exactformer.studio.web import shared_pages
from exactformer.studio.web.rendering import HOLE, fill
from exactformer.studio.web.shared_pages import SharedPage, SharedPages

PAPER = "fang-2022-attention-enables-zero-approximation-error"
PAGE = f"/papers/{PAPER}"


def post(person: Any, path: str, **form: Any) -> None:
    answer = person.client.post(path, data=form)
    assert answer.status_code in (200, 303), answer.text


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask for a page that is rendered for one person from beginning to end."""

    def ask(app: Any, person: Any, path: str) -> str:
        class Unshared(SharedPage):
            @classmethod
            def render(cls, template, context, kept=None):
                return cls((b"",), (), (template, context))

            def fill(self, context, states=shared_pages.NOTHING):
                template, data = self.kept
                opinions = {"opinions": data["opinions"]}
                return fill(template, data | context | opinions).encode()

        with monkeypatch.context() as patch:
            patch.setattr("exactformer.studio.web.request.SharedPage", Unshared)
            patch.setattr("exactformer.studio.library.paper_routes.stand_in", lambda actor: actor)
            kept, app.state.shared_pages = app.state.shared_pages, SharedPages()
            text = str(person.client.get(path).text)
            app.state.shared_pages = kept
            return text

    return ask


def test_everybody_gets_the_page_that_would_be_rendered_for_her_alone(
    app: Any, people: Any, alone: Any
) -> None:
    anna, bert = people.new(), people.new()
    post(anna, f"{PAGE}/vote", value=1)
    post(anna, f"{PAGE}/save", on="true")
    post(anna, f"{PAGE}/reaction", show="useful")
    post(anna, f"{PAGE}/collect", title="To <read>")
    post(bert, f"{PAGE}/comments", body="See #table-1, @nobody.", kind="question")
    (mentioned,) = anna.client.get(f"/api/v1{PAGE}/comments").json()["items"]
    carl = people.new()
    post(carl, f"/comments/{mentioned['id']}/useful", on="true")
    everybody = {
        "visitor": people.visitor,
        "voter": anna,
        "marker": carl,
        "author": bert,
        "reader": people.new(),
        "curator": people.curator,
        "admin": people.admin,
    }
    for role, person in everybody.items():
        for _ in range(2):
            page = person.client.get(PAGE).text
            assert HOLE not in page
            assert page == alone(app, person, PAGE), role
    assert 'aria-pressed="true"' in everybody["voter"].client.get(PAGE).text
    pressed = f'id="useful-comment-{mentioned["id"]}" name="on" value="false" aria-pressed="true"'
    assert [
        role for role, person in everybody.items() if pressed in person.client.get(PAGE).text
    ] == ["marker"]
    assert "To &lt;read&gt;" in everybody["voter"].client.get(PAGE).text
    assert "To &lt;read&gt;" not in everybody["reader"].client.get(PAGE).text


def test_a_kept_header_shows_what_waits_by_now(app: Any, people: Any) -> None:
    """The page itself is kept: what waits was said about another, or is no text at all."""
    anna, bert, curator = people.new(), people.new(), people.curator
    links = re.findall('href="(/papers/[a-z0-9-]+)"', anna.client.get("/papers").text)
    other = next(link for link in links if link != PAGE)

    def waiting(person: Any) -> dict[str, str]:
        menu = header_of(person.client.get(PAGE).text).partition("<ul")[2]
        return dict(re.findall(r'<a href="/(\w+)">[\w ]+ <span class="count">(\d+)', menu))

    for person in (anna, bert, curator):
        assert waiting(person) == {}
    kept = dict(app.state.shared_pages._pages)
    post(bert, f"{other}/comments", body=f"@{anna.handle}, look.", kind="question")
    assert waiting(anna) == {"notices": "1"}
    assert waiting(bert) == {}
    (comment,) = anna.client.get(f"/api/v1{other}/comments").json()["items"]
    post(anna, f"/comments/{comment['id']}/flag", reason="rude")
    assert waiting(curator) == {"moderation": "1"}
    post(anna, "/proposals", title="On another thing")
    assert waiting(curator) == {"moderation": "1", "proposals": "1"}
    post(anna, "/notices/read", up_to=10**6)
    assert waiting(anna) == {}
    assert app.state.shared_pages._pages == kept


def header_of(page: str) -> str:
    return page.partition("<header")[2].partition("</header>")[0]


def test_no_page_has_the_token_or_the_name_of_another(people: Any) -> None:
    first, second = people.new(), people.new()
    pages = [person.client.get(PAGE).text for person in (first, second, first)]
    tokens = [set(re.findall('name="csrf_token" value="([^"]*)"', page)) for page in pages]
    assert [len(own) for own in tokens] == [1, 1, 1]
    assert tokens[0] == tokens[2] != tokens[1]
    drafts = [re.findall('data-draft="([^ "]*)', page) for page in pages]
    assert drafts[0] == drafts[2] != drafts[1]


def test_a_change_is_on_everybodys_next_page(people: Any) -> None:
    reader, writer = people.new(), people.new()
    assert "A new thought" not in reader.client.get(PAGE).text
    post(writer, f"{PAGE}/comments", body="A new thought", kind="note")
    for person in (reader, writer, people.visitor):
        assert "A new thought" in person.client.get(PAGE).text


def test_a_page_is_made_once_for_all_readers_and_again_for_a_change(
    people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exactformer.studio.library import papers

    made: list[str] = []
    get = papers.get
    monkeypatch.setattr(papers, "get", lambda db, slug: made.append(slug) or get(db, slug))
    anna, bert = people.new(), people.new()
    made.clear()
    for person in (anna, bert, anna):
        person.client.get(PAGE)
    assert made == [PAPER]
    papers_ = anna.client.get("/api/v1/papers?sort=oldest").json()["items"]
    other = next(paper["slug"] for paper in papers_ if paper["slug"] != PAPER)
    post(anna, f"/papers/{other}/vote", value=1)
    made.clear()
    bert.client.get(PAGE)
    assert made == []
    post(anna, f"{PAGE}/vote", value=1)
    made.clear()
    bert.client.get(PAGE)
    assert made == [PAPER]


def test_of_many_who_need_a_new_page_one_makes_it() -> None:
    pages, made, begin = SharedPages(), [], threading.Barrier(8)

    def make() -> SharedPage:
        made.append(1)
        return SharedPage((b"page",), ())

    def ask() -> None:
        begin.wait()
        assert pages.get("key", 1, make).pieces == (b"page",)

    crowd = [threading.Thread(target=ask) for _ in range(8)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert made == [1]


def test_memory_is_bounded_and_the_page_longest_unused_goes_first() -> None:
    pages = SharedPages(most_bytes=250)
    for key in "abc":
        pages.get(key, 1, lambda: SharedPage((b"x" * 100,), ()))
    assert [pages.kept(key, 1) is not None for key in "abc"] == [False, True, True]
    pages.get("b", 2, lambda: SharedPage((b"x" * 100,), ()))
    assert pages.kept("b", 1) is None
    assert pages.kept("c", 1) is not None


def test_a_page_that_cannot_be_made_is_tried_again() -> None:
    pages = SharedPages()
    with pytest.raises(ZeroDivisionError):
        pages.get("key", 1, lambda: SharedPage((b"x" * (1 // 0),), ()))
    assert pages.get("key", 1, lambda: SharedPage((b"x",), ())).pieces == (b"x",)
