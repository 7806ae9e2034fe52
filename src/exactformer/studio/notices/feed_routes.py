"""Atom feeds: new papers, all claims, and what readers say about a paper.

A feed is the same for everybody: it is read as a visitor reads, whoever asks. Elements are built,
never written as text, and characters that XML does not allow are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TypeVar
from xml.etree.ElementTree import Element, SubElement, tostring

from fastapi import APIRouter, Request
from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload
from starlette.responses import Response

from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.claims import Wanted
from exactformer.studio.library import papers
from exactformer.studio.library.catalogue import whole
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions.tables import Comment, Review
from exactformer.studio.opinions.views import show_comments, show_reviews
from exactformer.studio.security.actor import VISITOR

router = APIRouter(tags=["feeds"], include_in_schema=False)

ENTRIES = 50
CLAIMS = 200
SECONDS = 60
"""How long readers of feeds may keep one before they ask again."""

_ATOM = "http://www.w3.org/2005/Atom"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Text = TypeVar("Text", Review, Comment)


@dataclass(frozen=True)
class Entry:
    """One entry; ``path`` is its address here, ``html`` and ``text`` are what it says."""

    path: str
    title: str
    at: datetime
    authors: tuple[str, ...] = ()
    text: str = ""
    html: str = ""


@router.get("/feeds/papers.atom")
def new_papers(request: Request, db: web.ReadSession) -> Response:
    """The papers that came last."""
    results = web.settings_of(request).results
    statement = select(Paper).options(*whole()).order_by(Paper.created_at.desc(), Paper.id.desc())
    entries = [
        Entry(
            f"/papers/{paper.slug}",
            paper.title,
            paper.created_at,
            tuple(place.person.name for place in paper.authorships[:20]),
            "\n\n".join(filter(None, (claims.in_words(paper, results), paper.abstract))),
        )
        for paper in db.scalars(statement.limit(ENTRIES))
    ]
    return _feed(request, "New papers", "/papers", entries)


@router.get("/feeds/claims.atom")
def all_claims(request: Request, db: web.ReadSession) -> Response:
    """All claims with what came of them, papers that changed last first."""
    found = claims.find(db, Wanted(limit=CLAIMS), web.settings_of(request).results)
    entries = [
        Entry(
            f"/papers/{paper.slug}/claims/{view.claim.anchor}",
            f"{view.claim.title}: {view.status}",
            paper.updated_at,
            (paper.title,),
            view.claim.statement,
        )
        for view, paper in found.items
    ]
    entries.sort(key=lambda entry: entry.at, reverse=True)
    return _feed(request, "Claims", "/claims", entries)


@router.get("/papers/{slug}/activity.atom")
def activity(request: Request, db: web.ReadSession, slug: web.Slug) -> Response:
    """The newest reviews and comments on a paper that everybody may read."""
    paper = papers.get(db, slug)
    entries = sorted(_said(db, paper), key=lambda entry: entry.at, reverse=True)[:ENTRIES]
    return _feed(request, f"Activity: {paper.title}", f"/papers/{paper.slug}", entries)


def _said(db: Session, paper: Paper) -> Iterable[Entry]:
    def newest(model: type[Text]) -> list[Text]:
        own = select(model).where(model.paper_id == paper.id, model.state == "visible")
        own = own.options(selectinload(model.author)).order_by(model.id.desc())
        return list(db.scalars(own.limit(ENTRIES)))

    for review in show_reviews(db, VISITOR, paper, newest(Review)):
        assert review.author is not None
        html = "".join(f"<h4>{part.label}</h4>{part.html}" for part in review.parts)
        title = f"Review by {review.author.name}"
        yield Entry(
            f"/reviews/{review.id}", title, review.updated_at, (review.author.name,), html=html
        )
    for comment in show_comments(db, VISITOR, paper, newest(Comment)):
        assert comment.author is not None
        title = f"{comment.kind.capitalize()} by {comment.author.name}"
        yield Entry(
            f"/comments/{comment.id}",
            title,
            comment.updated_at,
            (comment.author.name,),
            html=str(comment.html),
        )


def _feed(request: Request, title: str, path: str, entries: list[Entry]) -> Response:
    """Answer with a feed, or with the news that nothing is new."""
    body = _xml(str(request.base_url).rstrip("/"), request.url.path, title, path, entries)
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": f"public, max-age={SECONDS}"}
    known = {tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")}
    if etag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/atom+xml; charset=utf-8", headers=headers)


def _xml(origin: str, own: str, title: str, path: str, entries: list[Entry]) -> bytes:
    feed = Element("feed", {"xmlns": _ATOM, "xml:base": f"{origin}/", "xml:lang": "en"})
    _add(feed, "id", origin + own)
    _add(feed, "title", f"{title} · exactformer studio")
    _add(feed, "updated", max((entry.at for entry in entries), default=None))
    SubElement(feed, "link", {"rel": "self", "href": origin + own, "type": "application/atom+xml"})
    SubElement(feed, "link", {"rel": "alternate", "href": origin + path, "type": "text/html"})
    _add(SubElement(feed, "author"), "name", "exactformer studio")
    for entry in entries:
        each = SubElement(feed, "entry")
        _add(each, "id", origin + entry.path)
        _add(each, "title", entry.title)
        _add(each, "updated", entry.at)
        SubElement(each, "link", {"rel": "alternate", "href": origin + entry.path})
        for name in entry.authors:
            _add(SubElement(each, "author"), "name", name)
        if entry.text:
            _add(each, "summary", entry.text)
        if entry.html:
            _add(each, "content", entry.html).set("type", "html")
    body: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return body


def _add(parent: Element, name: str, value: str | datetime | None) -> Element:
    child = SubElement(parent, name)
    if isinstance(value, str):
        child.text = _NOT_XML.sub("", value)
    else:
        child.text = value.isoformat(timespec="seconds") if value else "1970-01-01T00:00:00+00:00"
    return child
