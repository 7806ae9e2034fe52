"""What a reader is told, and what she follows; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.library import papers
from exactformer.studio.notices import service
from exactformer.studio.security.actor import Actor

api = APIRouter(prefix="/api/v1", tags=["notices"])
pages = APIRouter(include_in_schema=False)

EACH = 30
Anchor = Annotated[web.Clean, Field(max_length=60)]


class NewsList(web.Listing[service.News]):
    """A stretch of one's notices; ``unread`` counts all that are new."""

    unread: int


class UpTo(web.Body):
    """The newest notice that was seen."""

    up_to: Annotated[int, Field(ge=0, le=web.LARGEST)]


class UpToForm(UpTo, web.FormBody):
    """The same, from a form."""


class Unread(BaseModel):
    """How many notices are new."""

    unread: int


class Follows(web.Body):
    """What is followed of a paper: all of it, or claims by their anchors."""

    paper: bool = False
    claims: Annotated[tuple[Anchor, ...], Field(max_length=200)] = ()


class FollowForm(Follows, web.FormBody):
    """The same, from a form."""


class FollowItem(BaseModel):
    """Something one follows; ``claim`` is empty where it is the paper."""

    paper: str
    title: str
    claim: str


@pages.get("/notices")
def notices(read: web.Read, page: web.PageNumber = 1) -> HTMLResponse:
    """Show what the reader was told, and what she follows."""
    found = read(service.listing, EACH, (page - 1) * EACH)
    return read.render("notices/list.html", found=found, following=read(service.following, 100))


@api.get("/notices")
def list_notices(read: web.Read, paging: web.Paging, unread: bool = False) -> NewsList:
    """What one was told, the newest first."""
    found = read(service.listing, *paging, only_unread=unread)
    return NewsList(items=list(found.items), total=found.total, unread=read(service.unread))


@pages.post("/notices/read")
def mark_read(write: web.Write, form: web.Sent[UpToForm]) -> Response:
    """Mark what was on the page as read; what came since stays new."""
    write(service.mark_read, form.up_to)
    return web.redirect(write.request, "/notices")


@api.post("/notices/read")
def read_notices(write: web.Write, up_to: UpTo) -> Unread:
    """Mark notices as read, up to the newest that was seen."""
    return Unread(unread=write(service.mark_read, up_to.up_to))


@api.get("/follows")
def list_follows(read: web.Read, paging: web.Paging) -> web.Listing[FollowItem]:
    """All that one follows."""
    found = read(service.following, *paging)
    items = (FollowItem(paper=slug, title=title, claim=claim) for slug, title, claim in found.items)
    return web.listing(items, found.total)


@pages.get("/papers/{slug}/follow")
def follow_form(read: web.Read, slug: web.Slug) -> HTMLResponse:
    """Ask what of a paper the reader wants to hear of."""
    paper = papers.get(read.db, slug)
    return read.render("notices/follow.html", paper=paper, followed=read(service.followed, paper))


@api.get("/papers/{slug}/follows")
def read_follows(read: web.Read, slug: web.Slug) -> Follows:
    """What one follows of a paper."""
    return _described(read(service.followed, papers.get(read.db, slug)))


@pages.post("/papers/{slug}/follow")
def follow(write: web.Write, slug: web.Slug, form: web.Sent[FollowForm]) -> Response:
    """Follow what was ticked, and nothing else of this paper."""
    write(_follow, slug, form)
    return web.redirect(write.request, f"/papers/{slug}")


@api.put("/papers/{slug}/follows")
def write_follows(write: web.Write, slug: web.Slug, wanted: Follows) -> Follows:
    """Follow exactly this of a paper."""
    return _described(write(_follow, slug, wanted))


def _follow(db: Session, actor: Actor, slug: str, wanted: Follows) -> frozenset[str]:
    anchors = frozenset(wanted.claims) - {""} | ({""} if wanted.paper else set())
    return service.follow(db, actor, papers.get(db, slug), anchors)


def _described(anchors: frozenset[str]) -> Follows:
    return Follows(paper="" in anchors, claims=tuple(sorted(anchors - {""})))


routers = (api, pages)
