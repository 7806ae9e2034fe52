"""What a reader is told, and what she follows, as pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.notices import service
from exactformer.studio.web.request import (
    LARGEST,
    Clean,
    CurrentActor,
    FormBody,
    ReadSession,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=10_000)]

EACH = 30
Slug = Annotated[Clean, Path(max_length=120)]
Anchor = Annotated[Clean, Field(max_length=60)]


class ReadForm(FormBody):
    """The newest notice that was on the page."""

    up_to: Annotated[int, Field(ge=0, le=LARGEST)]


class FollowForm(FormBody):
    """What to follow from now on: all of the paper, or claims by their anchors."""

    paper: bool = False
    claims: Annotated[tuple[Anchor, ...], Field(max_length=200)] = ()


@router.get("/notices")
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


@router.post("/notices/read")
def read(request: Request, actor: CurrentActor, form: Annotated[ReadForm, Form()]) -> Response:
    """Mark what was on the page as read; what came since stays new."""
    with writing(request) as db:
        service.mark_read(db, actor, form.up_to)
    return redirect(request, "/notices")


@router.get("/papers/{slug}/follow")
def follow_form(request: Request, db: ReadSession, actor: CurrentActor, slug: Slug) -> HTMLResponse:
    """Ask what of a paper the reader wants to hear of."""
    paper = papers.get(db, slug)
    followed = service.followed(db, actor, paper)
    return render(request, "notices/follow.html", paper=paper, followed=followed)


@router.post("/papers/{slug}/follow")
def follow(
    request: Request, actor: CurrentActor, slug: Slug, form: Annotated[FollowForm, Form()]
) -> Response:
    """Follow what was ticked, and nothing else of this paper."""
    with writing(request) as db:
        wanted = frozenset(form.claims) - {""} | ({""} if form.paper else set())
        service.follow(db, actor, papers.get(db, slug), wanted)
    return redirect(request, f"/papers/{slug}")
