"""People, institutions and topics: their pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.library import papers, people
from exactformer.studio.library.papers import Browse

router = APIRouter()

EACH = 20


@router.get("/people/{id}")
def person(read: web.Read, id: web.Identifier, page: web.PageNumber = 1) -> Response:
    """Show a person: her papers, where she works, who she writes with."""
    about = {
        "person": people.person(read.db, id),
        "institutions": people.institutions_of(read.db, id),
        "coauthors": people.coauthors(read.db, id),
    }
    return _page(read, "papers/person.html", about, Browse(person=id), page)


@router.get("/institutions/{id}")
def institution(read: web.Read, id: web.Identifier, page: web.PageNumber = 1) -> Response:
    """Show an institution: its people and their papers."""
    found, staff = people.institution(read.db, id), people.people_at(read.db, id)
    about = {"institution": found, "people": staff}
    return _page(read, "papers/institution.html", about, Browse(institution=id), page)


@router.get("/topics/{slug}")
def topic(read: web.Read, slug: str, page: web.PageNumber = 1) -> Response:
    """Show a topic: the papers about it."""
    about = {"topic": people.topic(read.db, slug)}
    return _page(read, "papers/topic.html", about, Browse(topic=slug), page)


def _page(
    read: web.Reader, template: str, about: dict[str, Any], asked: Browse, page: int
) -> Response:
    """Show somebody or something, with a page of the papers that belong to it."""
    db = read.db
    found = papers.find(db, replace(asked, sort="newest", limit=EACH, offset=(page - 1) * EACH))
    ids = [paper.id for paper in found.items]
    return read.render(
        template,
        found=found,
        counts=papers.counts(db, ids),
        tallies=claims.by_paper(db, web.settings_of(read.request).results, ids),
        **about,
    )
