"""People, institutions and topics: their pages, each beside its JSON route."""

from __future__ import annotations

from dataclasses import replace

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
    who = people.person(db, id)
    found, counts = _of(db, Browse(person=id), page)
    return render(
        request,
        "papers/person.html",
        person=who,
        institutions=people.institutions_of(db, id),
        coauthors=people.coauthors(db, id),
        found=found,
        counts=counts,
        page=page,
        each=EACH,
    )


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
    house = people.institution(db, id)
    found, counts = _of(db, Browse(institution=id), page)
    return render(
        request,
        "papers/institution.html",
        institution=house,
        people=people.people_at(db, id),
        found=found,
        counts=counts,
        page=page,
        each=EACH,
    )


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
    about = people.topic(db, slug)
    found, counts = _of(db, Browse(topic=slug), page)
    return render(
        request,
        "papers/topic.html",
        topic=about,
        found=found,
        counts=counts,
        page=page,
        each=EACH,
    )


@api.get("/topics")
def read_topics(db: ReadSession, paging: Paging) -> Listing[TopicOut]:
    """Topics, those with most papers first."""
    found, total = people.topics(db, paging.limit, paging.offset)
    items = (TopicOut(slug=topic.slug, name=topic.name, papers=n) for topic, n in found)
    return listing(items, total)


def _of(db: Session, asked: Browse, page: int) -> tuple[papers.Found, dict[int, papers.Counts]]:
    here = replace(asked, sort="newest", limit=EACH, offset=(page - 1) * EACH)
    found = papers.find(db, here)
    return found, papers.counts(db, [paper.id for paper in found.items])


routers = (pages, api)
