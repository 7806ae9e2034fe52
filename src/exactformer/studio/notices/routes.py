"""What a reader is told, and what she follows; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.notices import service
from exactformer.studio.security.actor import Actor
from exactformer.studio.web.request import CurrentActor, ReadSession, Write, redirect, render
from exactformer.studio.web.types import (
    LARGEST,
    Body,
    Clean,
    FormBody,
    Listing,
    PageNumber,
    Paging,
    Sent,
    Slug,
    listing,
)

api = APIRouter(prefix="/api/v1", tags=["notices"])
pages = APIRouter(include_in_schema=False)

EACH = 30
Anchor = Annotated[Clean, Field(max_length=60)]


class NewsList(Listing[service.News]):
    """A stretch of one's notices; ``unread`` counts all that are new."""

    unread: int


class UpTo(Body):
    """The newest notice that was seen."""

    up_to: Annotated[int, Field(ge=0, le=LARGEST)]


class UpToForm(UpTo, FormBody):
    """The same, from a form."""


class Unread(BaseModel):
    """How many notices are new."""

    unread: int


class Follows(Body):
    """What is followed of a paper: all of it, or claims by their anchors."""

    paper: bool = False
    claims: Annotated[tuple[Anchor, ...], Field(max_length=200)] = ()


class FollowForm(Follows, FormBody):
    """The same, from a form."""


class FollowItem(BaseModel):
    """Something one follows; ``claim`` is empty where it is the paper."""

    paper: str
    title: str
    claim: str


@pages.get("/notices")
def notices(
    request: Request, db: ReadSession, actor: CurrentActor, page: PageNumber = 1
) -> HTMLResponse:
    """Show what the reader was told, and what she follows."""
    found = service.listing(db, actor, EACH, (page - 1) * EACH)
    return render(
        request,
        "notices/list.html",
        found=found,
        page=page,
        each=EACH,
        following=service.following(db, actor, 100),
    )


@api.get("/notices")
def list_notices(
    db: ReadSession, actor: CurrentActor, paging: Paging, unread: bool = False
) -> NewsList:
    """What one was told, the newest first."""
    found = service.listing(db, actor, paging.limit, paging.offset, only_unread=unread)
    items, new = list(found.items), service.unread(db, actor)
    return NewsList(items=items, total=found.total, unread=new)


@pages.post("/notices/read")
def mark_read(write: Write, form: Sent[UpToForm]) -> Response:
    """Mark what was on the page as read; what came since stays new."""
    write(service.mark_read, form.up_to)
    return redirect(write.request, "/notices")


@api.post("/notices/read")
def read_notices(write: Write, up_to: UpTo) -> Unread:
    """Mark notices as read, up to the newest that was seen."""
    return Unread(unread=write(service.mark_read, up_to.up_to))


@api.get("/follows")
def list_follows(db: ReadSession, actor: CurrentActor, paging: Paging) -> Listing[FollowItem]:
    """All that one follows."""
    found = service.following(db, actor, paging.limit, paging.offset)
    items = (FollowItem(paper=slug, title=title, claim=claim) for slug, title, claim in found.items)
    return listing(items, found.total)


@pages.get("/papers/{slug}/follow")
def follow_form(request: Request, db: ReadSession, actor: CurrentActor, slug: Slug) -> HTMLResponse:
    """Ask what of a paper the reader wants to hear of."""
    paper = papers.get(db, slug)
    followed = service.followed(db, actor, paper)
    return render(request, "notices/follow.html", paper=paper, followed=followed)


@api.get("/papers/{slug}/follows")
def read_follows(db: ReadSession, actor: CurrentActor, slug: Slug) -> Follows:
    """What one follows of a paper."""
    return _described(service.followed(db, actor, papers.get(db, slug)))


@pages.post("/papers/{slug}/follow")
def follow(write: Write, slug: Slug, form: Sent[FollowForm]) -> Response:
    """Follow what was ticked, and nothing else of this paper."""
    write(_follow, slug, form)
    return redirect(write.request, f"/papers/{slug}")


@api.put("/papers/{slug}/follows")
def write_follows(write: Write, slug: Slug, wanted: Follows) -> Follows:
    """Follow exactly this of a paper."""
    return _described(write(_follow, slug, wanted))


def _follow(db: Session, actor: Actor, slug: str, wanted: Follows) -> frozenset[str]:
    anchors = frozenset(wanted.claims) - {""} | ({""} if wanted.paper else set())
    return service.follow(db, actor, papers.get(db, slug), anchors)


def _described(anchors: frozenset[str]) -> Follows:
    return Follows(paper="" in anchors, claims=tuple(sorted(anchors - {""})))


routers = (api, pages)
