"""Titles with mathematics, and names and formulas that cannot be broken, on their pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.studio.support.browsers import DESK, PHONE, Visit, scrolls_sideways
from tests.studio.support.people import People
from tests.studio.support.places import PLACES
from tests.studio.support.worlds import build, done, three_papers

TITLE = "On $x^2$ and its kind"
ELSEWHERE = {
    "audit",
    "map",
    "paper-edit",
    "polynomial",
    "sequences",
    "couplings",
    "programs",
}
"""Pages that show no title, or what is stored."""
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
SUM = "+".join(f"a_{{{k}}}" for k in range(40))


def retitle(database: Any, slug: str, title: str, author: str = "") -> None:
    """Give a paper another title, and its first author another name."""
    from sqlalchemy import select

    from exactformer.studio.library.tables import Paper

    with database.writing() as db:
        paper = db.scalars(select(Paper).where(Paper.slug == slug)).one()
        paper.title = title
        if author:
            paper.authorships[0].person.name = author


def test_no_page_shows_the_source_of_a_title(people: People) -> None:
    world = build(people)
    retitle(people.database, world.slug, TITLE)
    showing = []
    for place in PLACES:
        if place.name in ELSEWHERE:
            continue
        person = world.person(place.who) or people.visitor
        page = person.client.get(place.address(world)).text
        shown = re.sub(
            r"<meta name=.citation[^>]*>|<(pre|textarea|code)\b.*?</\1>", "", page, flags=re.S
        )
        showing += (
            [(place.name, shown[shown.find("$x^2$") - 60 :][:90])] if "$x^2$" in shown else []
        )
    assert not showing, "\n".join(map(str, showing))


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_what_cannot_be_broken_widens_no_page(
    visit: Visit, live_people: People, size: dict[str, int]
) -> None:
    slug = three_papers(live_people.database)[2].slug
    retitle(live_people.database, slug, rf"{WORD} and $\frac{{{SUM}}}{{b}}$", WORD)
    person = live_people.new()
    done(person, "/account", "/account/name", name=2 * WORD[:50])
    body = rf"$\frac{{{SUM}}}{{b}}$ {WORD}"
    done(person, f"/papers/{slug}", f"/papers/{slug}/comments", body=body)
    page = visit.page(person, size=size)
    for path in ("", "/discussion", "/history", "/follow", "/review"):
        page.goto(f"/papers/{slug}{path}")
        page.wait_for_load_state("networkidle")
        assert not scrolls_sideways(page), path
