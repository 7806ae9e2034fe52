"""What a reader is told, and what she follows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.library import papers
from exactformer.studio.notices import service
from exactformer.studio.security.actor import Actor

router = APIRouter()

EACH = 30
Anchor = Annotated[web.Clean, Field(max_length=60)]


class UpTo(web.Body):
    """The newest notice that was seen."""

    up_to: Annotated[int, Field(ge=0, le=web.LARGEST)]


class UpToForm(UpTo, web.FormBody):
    """The same, from a form."""


class Follows(web.Body):
    """What is followed of a paper: all of it, or claims by their anchors."""

    paper: bool = False
    claims: Annotated[tuple[Anchor, ...], Field(max_length=200)] = ()


class FollowForm(Follows, web.FormBody):
    """The same, from a form."""


@router.get("/notices")
def notices(read: web.Read, page: web.PageNumber = 1) -> HTMLResponse:
    """Show what the reader was told, and what she follows."""
    found = read(service.listing, EACH, (page - 1) * EACH)
    return read.render("notices/list.html", found=found, following=read(service.following, 100))


@router.post("/notices/read")
def mark_read(write: web.Write, form: web.Sent[UpToForm]) -> Response:
    """Mark what was on the page as read; what came since stays new."""
    write(service.mark_read, form.up_to)
    return web.redirect(write.request, "/notices")


@router.get("/papers/{slug}/follow")
def follow_form(read: web.Read, slug: web.Slug) -> HTMLResponse:
    """Ask what of a paper the reader wants to hear of."""
    paper = papers.get(read.db, slug)
    return read.render("notices/follow.html", paper=paper, followed=read(service.followed, paper))


@router.post("/papers/{slug}/follow")
def follow(write: web.Write, slug: web.Slug, form: web.Sent[FollowForm]) -> Response:
    """Follow what was ticked, and nothing else of this paper."""
    write(_follow, slug, form)
    return web.redirect(write.request, f"/papers/{slug}")


def _follow(db: Session, actor: Actor, slug: str, wanted: Follows) -> frozenset[str]:
    anchors = frozenset(wanted.claims) - {""} | ({""} if wanted.paper else set())
    return service.follow(db, actor, papers.get(db, slug), anchors)
