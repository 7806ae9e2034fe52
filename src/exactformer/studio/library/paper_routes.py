"""Papers: browse and search, a paper's page, its history, people, topics, figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import FileResponse, Response

from exactformer.studio.evidence import claims, demonstrations, evidence, runs
from exactformer.studio.evidence.claims import Wanted
from exactformer.studio.library import citations, lookup, papers, people, search
from exactformer.studio.library.papers import SORTS, Browse
from exactformer.studio.library.tables import PAPER_KINDS, Paper
from exactformer.studio.opinions import panel
from exactformer.studio.opinions.panel import Bar, Own
from exactformer.studio.security.actor import Actor
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    is_htmx,
    near,
    render,
    render_shared,
    settings_of,
)
from exactformer.studio.web.shared_pages import stand_in
from exactformer.studio.web.types import Clean, Identifier

pages = APIRouter(tags=["papers"], include_in_schema=False)

EACH = 20
Page = Annotated[int, Query(ge=1, le=100_000)]
SORT_LABELS = {
    "relevance": "Best match",
    "claims": "Most claims",
    "newest": "Newest",
    "oldest": "Oldest",
    "title": "Title",
    "cited": "Most cited here",
}


@pages.get("/papers")
def browse(
    request: Request,
    db: ReadSession,
    q: Annotated[Clean, Query(max_length=300)] = "",
    kind: Annotated[Clean, Query(max_length=20)] = "",
    year: Annotated[Clean, Query(max_length=10)] = "",
    topic: Annotated[Clean, Query(max_length=120)] = "",
    sort: Annotated[Clean, Query(max_length=20)] = "",
    page: Page = 1,
) -> Response:
    """Show papers: all of them, or those that fit; what a filter does not know it leaves out."""
    asked = Browse(
        q=q,
        kind=kind if kind in PAPER_KINDS else None,
        year=int(year) if year.isdecimal() and len(year) == 4 else None,
        topic=topic or None,
        sort=next((known for known in SORTS if known == sort), "relevance" if q else "claims"),
        limit=EACH,
        offset=(page - 1) * EACH,
    )
    found = papers.find(db, asked)
    results, query = settings_of(request).results, search.parse(q)
    about = claims.find(db, Wanted(q, limit=5), results) if query and page == 1 else None
    terms = {"q": q, "kind": kind, "year": year, "topic": topic, "sort": sort}
    return render(
        request,
        "papers/_results.html" if is_htmx(request) else "papers/browse.html",
        asked=asked,
        found=found,
        counts=papers.counts(db, [paper.id for paper in found.items]),
        tallies=claims.by_paper(db, results, [paper.id for paper in found.items]),
        query=query,
        about=about,
        houses=lookup.institutions(db, query),
        near=lookup.near(db, query) if query and not found.total else None,
        highlight=search.highlight,
        excerpt=search.excerpt,
        page=page,
        each=EACH,
        address=f"/papers?{urlencode({k: v for k, v in terms.items() if v})}&".replace("?&", "?"),
        kinds=PAPER_KINDS,
        sorts=SORT_LABELS,
        topics=people.topics(db)[0],
    )


@pages.get("/papers/{slug}")
async def paper_page(request: Request, db: ReadSession, actor: CurrentActor, slug: str) -> Response:
    """Show a paper: what it is, what it claims and what came of it, what readers think."""
    results = settings_of(request).results
    numbers, own = await near(request, _known_to, db, actor, slug)
    reader = actor if own.has_written else stand_in(actor)

    def read() -> tuple[dict[str, Any], Bar]:
        context = _page(db, reader, slug, results)
        return context, panel.Own().mark(context["opinions"])

    return await render_shared(
        request,
        "papers/page.html",
        (*numbers, evidence.changed_at(results)),
        reader,
        read,
        {"opinions/_bar.html": (own, lambda bar: {"opinions": own.mark(bar)})},
    )


def _known_to(db: Session, actor: Actor, slug: str) -> tuple[tuple[int, ...], Own]:
    """Return the version of a paper's page, and what the reader has to do with it."""
    connection = db.connection()
    paper_id, *numbers = papers.version(connection, slug)
    return tuple(numbers), panel.own(connection, actor, paper_id)


def _page(db: Session, reader: Actor, slug: str, results: Path | None) -> dict[str, Any]:
    """Read what the page of a paper shows."""
    paper = papers.get(db, slug)
    views = claims.views(paper, results)
    return {
        "paper": paper,
        "houses": _houses(paper),
        "counts": papers.counts(db, [paper.id])[paper.id],
        "claims": views,
        "tally": claims.tally(views),
        "live": demonstrations.of_paper(db, paper),
        "runnable": runs.RUNNABLE,
        "meanings": claims.MEANINGS,
        "tones": claims.TONES,
        "citation": citations.line(paper),
        "bibtex": citations.entry(paper),
        "mentions": panel.mentions(db, paper),
        "references": papers.references(db, paper.id),
        "cited_by": papers.cited_by(db, paper.id, limit=50),
        "opinions": panel.gather(db, reader, paper),
    }


@pages.get("/papers/{slug}/history")
def history(request: Request, db: ReadSession, slug: str) -> Response:
    """Show who changed what about a paper."""
    paper = papers.get(db, slug)
    entries = papers.history(db, paper.id)
    return render(request, "papers/history.html", paper=paper, entries=entries)


@pages.get("/figures/{experiment}.{kind}")
def figure(request: Request, experiment: str, kind: str) -> Response:
    """Answer with the figure of a stored run."""
    path = evidence.figure(settings_of(request).results, experiment, kind)
    return FileResponse(
        path,
        media_type=evidence.FIGURE_TYPES[kind],
        headers={"Cache-Control": "public, max-age=600"},
    )


@pages.get("/people/{id}")
def person(request: Request, db: ReadSession, id: Identifier, page: Page = 1) -> Response:
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


@pages.get("/institutions/{id}")
def institution(request: Request, db: ReadSession, id: Identifier, page: Page = 1) -> Response:
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


@pages.get("/topics/{slug}")
def topic(request: Request, db: ReadSession, slug: str, page: Page = 1) -> Response:
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


def _of(db: Session, asked: Browse, page: int) -> tuple[papers.Found, dict[int, papers.Counts]]:
    here = replace(asked, sort="newest", limit=EACH, offset=(page - 1) * EACH)
    found = papers.find(db, here)
    return found, papers.counts(db, [paper.id for paper in found.items])


def _houses(paper: Paper) -> dict[int, int]:
    """Number the institutions in the order in which authors name them."""
    named = [house.id for place in paper.authorships for house in place.institutions]
    return {id: number for number, id in enumerate(dict.fromkeys(named), 1)}


routers = (pages,)
