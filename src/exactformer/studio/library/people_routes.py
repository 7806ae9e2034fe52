"""People, institutions and topics: their pages, each beside its JSON route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.library import papers, people
from exactformer.studio.library.models import InstitutionOut, NamedOut, PersonOut, TopicOut
from exactformer.studio.library.papers import Browse
from exactformer.studio.web.request import ReadSession, render
from exactformer.studio.web.types import Identifier, Listing, PageNumber, Paging, listing

pages = APIRouter(tags=["papers"], include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["papers"])

EACH = 20


@pages.get("/people/{id}")
def person(request: Request, db: ReadSession, id: Identifier, page: PageNumber = 1) -> Response:
    """Show a person: her papers, where she works, who she writes with."""
    about = {
        "person": people.person(db, id),
        "institutions": people.institutions_of(db, id),
        "coauthors": people.coauthors(db, id),
    }
    return _page(request, db, "papers/person.html", about, Browse(person=id), page)


@api.get("/people/{id}")
def read_person(db: ReadSession, id: Identifier) -> PersonOut:
    """A person; ``/papers?person=`` lists her papers."""
    person = people.person(db, id)
    return PersonOut(
        id=person.id,
        name=person.name,
        orcid=person.orcid,
        institutions=[NamedOut.model_validate(each) for each in people.institutions_of(db, id)],
    )


@pages.get("/institutions/{id}")
def institution(
    request: Request, db: ReadSession, id: Identifier, page: PageNumber = 1
) -> Response:
    """Show an institution: its people and their papers."""
    about = {"institution": people.institution(db, id), "people": people.people_at(db, id)}
    return _page(request, db, "papers/institution.html", about, Browse(institution=id), page)


@api.get("/institutions/{id}")
def read_institution(db: ReadSession, id: Identifier) -> InstitutionOut:
    """An institution; ``/papers?institution=`` lists its papers."""
    institution = people.institution(db, id)
    return InstitutionOut(
        id=institution.id,
        name=institution.name,
        people=[NamedOut.model_validate(each) for each in people.people_at(db, id)],
    )


@pages.get("/topics/{slug}")
def topic(request: Request, db: ReadSession, slug: str, page: PageNumber = 1) -> Response:
    """Show a topic: the papers about it."""
    about = {"topic": people.topic(db, slug)}
    return _page(request, db, "papers/topic.html", about, Browse(topic=slug), page)


@api.get("/topics")
def read_topics(db: ReadSession, paging: Paging) -> Listing[TopicOut]:
    """Topics, those with most papers first."""
    found = people.topics(db, paging.limit, paging.offset)
    items = (TopicOut(slug=topic.slug, name=topic.name, papers=n) for topic, n in found.items)
    return listing(items, found.total)


def _page(
    request: Request, db: Session, template: str, about: dict[str, Any], asked: Browse, page: int
) -> Response:
    """Show somebody or something, with a page of the papers that belong to it."""
    found = papers.find(db, replace(asked, sort="newest", limit=EACH, offset=(page - 1) * EACH))
    counts = papers.counts(db, [paper.id for paper in found.items])
    return render(request, template, found=found, counts=counts, page=page, each=EACH, **about)


routers = (pages, api)
