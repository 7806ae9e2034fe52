"""Papers: browse and search, read, edit, their history and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator
from sqlalchemy.orm import Session
from starlette.responses import Response, StreamingResponse

from exactformer.claims import MEANINGS
from exactformer.studio import web
from exactformer.studio.errors import ConflictError, InvalidError, StudioError
from exactformer.studio.evidence import claims, demonstrations
from exactformer.studio.evidence.claims import Wanted
from exactformer.studio.library import edits, exports, papers, people, search
from exactformer.studio.library.catalogue import record
from exactformer.studio.library.edits import PaperForm, fields_of, form_of
from exactformer.studio.library.exports import FORMATS, as_file, named
from exactformer.studio.library.exports import Wanted as WantedFormat
from exactformer.studio.library.papers import SORTS, Browse
from exactformer.studio.library.records import to_dict
from exactformer.studio.library.tables import PAPER_KINDS, Paper
from exactformer.studio.opinions import panel
from exactformer.studio.security.actor import Actor

router = APIRouter()

EACH = 20
Year = Annotated[int, Query(ge=1000, le=2999)]
Number = Annotated[int, Query(ge=1, le=web.LARGEST)]
SORT_LABELS = {
    "relevance": "Best match",
    "claims": "Most claims",
    "newest": "Newest",
    "oldest": "Oldest",
    "title": "Title",
    "cited": "Most cited here",
}


@router.get("/papers")
def browse(
    request: Request,
    db: web.ReadSession,
    q: Annotated[web.Clean, Query(max_length=300)] = "",
    kind: Annotated[web.Clean, web.one_of(PAPER_KINDS), Query(max_length=20)] = "",
    year: Annotated[Year | None, BeforeValidator(lambda text: text or None)] = None,
    topic: Annotated[web.Clean, Query(max_length=120)] = "",
    sort: Annotated[web.Clean, web.one_of(SORTS), Query(max_length=20)] = "",
    page: web.PageNumber = 1,
) -> Response:
    """Show papers: all of them, or those that fit."""
    asked = Browse(
        q=q,
        kind=kind or None,
        year=year,
        topic=topic or None,
        sort=next((known for known in SORTS if known == sort), "relevance" if q else "claims"),
        limit=EACH,
        offset=(page - 1) * EACH,
    )
    found = papers.find(db, asked)
    ids = [paper.id for paper in found.items]
    results, query = web.settings_of(request).results, search.parse(q)
    about = claims.find(db, Wanted(q, limit=5), results) if query and page == 1 else None
    terms = {"q": q, "kind": kind, "year": year, "topic": topic, "sort": sort}
    return web.render(
        request,
        "papers/_results.html" if web.is_htmx(request) else "papers/browse.html",
        asked=asked,
        found=found,
        counts=papers.counts(db, ids),
        tallies=claims.by_paper(db, results, ids),
        query=query,
        about=about,
        houses=search.institutions(db, query),
        near=search.near(db, query) if query and not found.total else None,
        highlight=search.highlight,
        excerpt=search.excerpt,
        address=f"/papers?{urlencode({k: v for k, v in terms.items() if v})}&".replace("?&", "?"),
        kinds=PAPER_KINDS,
        sorts=SORT_LABELS,
        topics=people.topics(db).items,
    )


@router.get("/papers/{slug}")
def paper_page(read: web.Read, slug: str) -> Response:
    """Show a paper: what it is, what it claims and what came of it, what readers think."""
    results = web.settings_of(read.request).results
    runnable = read.request.app.state.runs.runnable
    page = _page(read.db, read.actor, slug, results)
    return read.render("papers/page.html", runnable=runnable, **page)


def _page(db: Session, reader: Actor, slug: str, results: Path | None) -> dict[str, Any]:
    """Read what the page of a paper shows."""
    paper = papers.get(db, slug)
    views = claims.views(paper, results)
    references = papers.references(db, paper.id)
    cited_by = papers.cited_by(db, paper.id, limit=50)
    near = [other.id for other in (*references.items, *cited_by.items)]
    return {
        "paper": paper,
        "houses": _houses(paper),
        "counts": papers.counts(db, [paper.id])[paper.id],
        "claims": views,
        "tally": claims.tally(views),
        "live": demonstrations.of_paper(db, paper),
        "meanings": MEANINGS,
        "tones": claims.TONES,
        "citation": exports.reference(paper),
        "bibtex": exports.bibtex_entry(paper),
        "mentions": panel.mentions(db, paper),
        "references": references,
        "cited_by": cited_by,
        "tallies": claims.by_paper(db, results, near),
        "opinions": panel.gather(db, reader, paper),
    }


def _houses(paper: Paper) -> dict[int, int]:
    """Number the institutions in the order in which authors name them."""
    named = [house.id for place in paper.authorships for house in place.institutions]
    return {id: number for number, id in enumerate(dict.fromkeys(named), 1)}


@router.get("/papers/{slug}/edit")
def edit_form(read: web.Read, slug: str) -> Response:
    """Show the form."""
    read.actor.require("curator")
    paper = papers.get(read.db, slug)
    form = form_of(to_dict(record(paper)), edits.version_of(paper))
    return _edit_form(read.request, slug, paper.title, form)


@router.post("/papers/{slug}/edit")
def submit_edit(
    request: Request, actor: web.CurrentActor, slug: str, form: web.Sent[PaperForm]
) -> Response:
    """Change the paper, or say what cannot be accepted and keep what was typed."""
    try:
        with web.writing(request) as db:
            edits.edit(db, actor, slug, fields_of(form), form.version or None)
    except (ConflictError, InvalidError) as refusal:
        return _edit_form(request, slug, form.title, form, refusal)
    return web.redirect(request, f"/papers/{slug}")


def _edit_form(
    request: Request, slug: str, title: str, form: PaperForm, refusal: StudioError | None = None
) -> Response:
    about = {"slug": slug, "title": title, "kinds": PAPER_KINDS}
    return web.render_form(request, "papers/edit.html", refusal, form=form, **about)


@router.get("/papers/{slug}/history")
def history(request: Request, db: web.ReadSession, slug: str) -> Response:
    """Show who changed what about a paper."""
    paper = papers.get(db, slug)
    entries = papers.history(db, paper.id)
    return web.render(request, "papers/history.html", paper=paper, entries=entries)


@router.get("/export")
def everything(request: Request, format: WantedFormat = "json") -> StreamingResponse:
    """The whole library, as it is read; import takes the JSON back without loss."""
    database = web.database_of(request)

    def pieces() -> Iterator[str]:
        with database.session() as db:
            yield from exports.stream(db, format)

    form = FORMATS[format]
    return StreamingResponse(
        pieces(), media_type=form.media_type, headers=named("library", form.suffix)
    )


@router.get("/papers/{slug}/export")
def one(db: web.ReadSession, slug: web.Slug, format: WantedFormat = "json") -> Response:
    """One paper."""
    return as_file(db, [papers.get(db, slug)], format, slug)
