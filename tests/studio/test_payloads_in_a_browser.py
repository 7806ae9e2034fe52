"""A hundred known cross-site payloads, written wherever one can write, then looked at in a browser.

They go in through the forms that people use. A page that runs any of them opens a
dialog, asks another host, or breaks the content security policy: `visit` listens for all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.markup_rules import violations
from tests.studio.support.payloads import PAYLOADS
from tests.studio.support.people import People, Person
from tests.studio.support.servers import Server
from tests.studio.support.worlds import listed, number_in, three_papers

BATCH = 12  # payloads in a text that is long enough for many


@dataclass
class Haunted:
    """Where payloads were written."""

    slug: str
    papers: list[str]
    collection: str
    attacker: Person
    curator: Person
    admin: Person


def posted(person: Person, path: str, **content: Any) -> Any:
    """Send a form as its page does; it must be taken."""
    answer = person.client.post(path, **content)
    assert answer.status_code in (200, 303), f"{path}: {answer.status_code} {answer.text[:300]}"
    return answer


def batches() -> list[str]:
    """All payloads in a few texts, each in a paragraph of its own."""
    return ["\n\n".join(PAYLOADS[k : k + BATCH]) for k in range(0, len(PAYLOADS), BATCH)]


@pytest.fixture(scope="module")
def haunted(live_server: Server) -> Iterator[Haunted]:
    with live_server.people() as people:
        yield haunt(people)


def haunt(people: People) -> Haunted:
    """Write payloads everywhere."""
    slug = three_papers(people.database)[1].slug
    attacker, helper = people.new(), people.new()
    curator, admin = people.new("curator"), people.new("admin")
    posted(attacker, "/account/name", data={"name": '"><img src=x onerror=alert(1)>'})
    for payload in PAYLOADS:
        posted(attacker, f"/papers/{slug}/comments", data={"body": payload, "kind": "question"})
    texts = batches()
    parts = ("summary", "strengths", "concerns", "questions")
    for k in range(0, len(texts), len(parts)):
        review = dict(zip(parts, texts[k : k + len(parts)], strict=False))
        reviewer = people.new()
        posted(reviewer, f"/papers/{slug}/review", data=review | {"confidence": 3})
    shelf = posted(attacker, "/collections", data={"title": PAYLOADS[0]}).headers["location"]
    description = {"title": "</title><script>alert(1)</script>", "description": texts[0]}
    posted(attacker, shelf, data=description)
    posted(attacker, f"{shelf}/sharing", data={"visibility": "link"})
    posted(attacker, f"/papers/{slug}/collect", data={"add": shelf.rsplit("/", 1)[1]})
    comment = number_in(attacker.client.get(f"/papers/{slug}").text, 'id="comment-')
    posted(helper, f"/comments/{comment}/flag", data={"reason": PAYLOADS[19]})
    proposed = dict.fromkeys(("title", "authors", "source", "topics", "abstract"), PAYLOADS[0])
    posted(attacker, "/proposals", data=proposed)
    posted(attacker, f"/papers/{slug}/comments", data={"body": f"@{curator.handle} {PAYLOADS[3]}"})
    return Haunted(slug, proposed_and_accepted(curator), shelf, attacker, curator, admin)


def proposed_and_accepted(curator: Person) -> list[str]:
    """Papers whose every field is a payload, through the form; their addresses."""
    for k, payload in enumerate(PAYLOADS[:40]):
        line = " ".join(payload.split())[:100]
        fields = {"title": f"{line} {k}", "abstract": payload, "source": line, "authors": line}
        posted(curator, "/proposals", data=fields | {"topics": line, "year": "2001"})
        waiting = re.findall(r'action="(/proposals/[0-9]+)"', curator.client.get("/proposals").text)
        posted(curator, waiting[-1], data={"state": "accepted"})
    pages = [curator.client.get(f"/papers?year=2001&page={k}") for k in (1, 2)]
    found = [address for page in pages for address in listed(page)]
    assert len(found) == 40
    return found


def look(page: Any, address: str) -> None:
    """Open a page, wait until its scripts have drawn it, and see that no payload became markup."""
    answer = page.goto(address)
    assert answer.status in (200, 404), address
    page.wait_for_load_state("networkidle")
    assert [wrong for wrong in violations(answer.text()) if "heading" not in wrong] == []
    assert not page.evaluate("document.querySelector('iframe, object, embed, base, marquee')")


def test_a_payload_that_runs_would_be_heard(visit: Visit) -> None:
    page = visit.page()
    page.goto("data:text/html,<img src=https://evil.example/x.png><script>alert(1)</script>")
    assert any("dialog" in text for text in visit.complaints)
    assert any("asks for https://evil.example" in text for text in visit.complaints)
    visit.complaints.clear()


def test_pages_that_show_what_readers_wrote(visit: Visit, haunted: Haunted) -> None:
    page = visit.page()
    look(page, f"/papers/{haunted.slug}")
    look(page, f"/papers/{haunted.slug}/reviews")
    page = visit.page(haunted.attacker)
    look(page, haunted.collection)
    look(page, "/collections")
    look(page, "/account")


@pytest.mark.spread(2)
@pytest.mark.parametrize("number", range(1, 9))
def test_pages_of_a_discussion(visit: Visit, haunted: Haunted, number: int) -> None:
    look(visit.page(), f"/papers/{haunted.slug}/discussion?page={number}")


@pytest.mark.slow
def test_pages_of_those_who_keep_order(visit: Visit, haunted: Haunted) -> None:
    page = visit.page(haunted.curator)
    look(page, "/notices")
    expect(page.locator(".news strong").first).to_have_text('"><img src=x onerror=alert(1)>')
    look(page, "/proposals")
    page = visit.page(haunted.admin)
    for address in ("/moderation", "/audit", "/admin/users", f"/readers/{haunted.attacker.handle}"):
        look(page, address)


@pytest.mark.slow
def test_pages_of_papers_that_were_accepted(visit: Visit, haunted: Haunted) -> None:
    assert len(haunted.papers) >= 30
    page = visit.page(haunted.curator)
    for address in haunted.papers[::6]:
        look(page, address)
    look(page, f"{haunted.papers[0]}/edit")
    look(page, f"{haunted.papers[0]}/history")
    look(page, "/papers?year=2001")
    look(page, "/papers?q=script+alert")


@pytest.mark.slow
def test_the_map_around_a_paper_that_was_accepted(visit: Visit, haunted: Haunted) -> None:
    page = visit.page()
    page.goto(haunted.papers[0])
    page.get_by_role("link", name="Explore full screen").click()
    page.locator("canvas").first.wait_for()
    page.get_by_role("tab", name="List").click()
    page.locator("#panel-list [data-node]").first.wait_for()
    page.get_by_label("Find a node").fill("script")
    expect(page.locator("[data-found]").first).to_contain_text("<script>")


@pytest.mark.slow
def test_addresses_that_hold_payloads(visit: Visit) -> None:
    from urllib.parse import quote

    page = visit.page()
    for payload in PAYLOADS[::12]:
        text = quote(payload, safe="")
        for address in (
            "/papers?q=",
            "/login?next=",
            "/map?node=",
            "/playground/polynomial?p=",
            "/playground/programs?program=",
            "/playground/programs?vocabulary=",
            "/",
        ):
            answer = page.goto(address + text)
            assert answer.status in (200, 400, 404, 422), address
            assert violations(answer.text()) == []
    visit.expect("status of 404", "status of 422", "status of 400")
