"""What a reader is told, and what she follows, for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from exactformer.studio.library import papers
from exactformer.studio.notices import service
from exactformer.studio.web.request import (
    LARGEST,
    Body,
    Clean,
    CurrentActor,
    Paging,
    ReadSession,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["notices"])

Slug = Annotated[Clean, Path(max_length=120)]
Anchor = Annotated[Clean, Field(max_length=60)]


class NewsItem(BaseModel):
    """A notice; ``who`` is empty where a decision is told."""

    id: int
    kind: str
    who: str
    what: str
    title: str
    href: str
    at: datetime
    is_read: bool


class NewsList(BaseModel):
    """A stretch of one's notices; ``unread`` counts all that are new."""

    items: list[NewsItem]
    total: int
    unread: int


class UpTo(Body):
    """The newest notice that was seen."""

    up_to: Annotated[int, Field(ge=0, le=LARGEST)]


class Unread(BaseModel):
    """How many notices are new."""

    unread: int


class Follows(Body):
    """What is followed of a paper: all of it, or claims by their anchors."""

    paper: bool = False
    claims: Annotated[tuple[Anchor, ...], Field(max_length=200)] = ()


class FollowItem(BaseModel):
    """Something one follows; ``claim`` is empty where it is the paper."""

    paper: str
    title: str
    claim: str


class FollowList(BaseModel):
    """A stretch of all that one follows."""

    items: list[FollowItem]
    total: int


@router.get("/notices")
def notices(db: ReadSession, actor: CurrentActor, paging: Paging, unread: bool = False) -> NewsList:
    """What one was told, the newest first."""
    found = service.listing(db, actor, paging.limit, paging.offset, only_unread=unread)
    items = [NewsItem.model_validate(vars(news)) for news in found.items]
    return NewsList(items=items, total=found.total, unread=service.unread(db, actor))


@router.post("/notices/read")
def read(request: Request, actor: CurrentActor, up_to: UpTo) -> Unread:
    """Mark notices as read, up to the newest that was seen."""
    with writing(request) as db:
        return Unread(unread=service.mark_read(db, actor, up_to.up_to))


@router.get("/follows")
def following(db: ReadSession, actor: CurrentActor, paging: Paging) -> FollowList:
    """All that one follows."""
    found = service.following(db, actor, paging.limit, paging.offset)
    items = [FollowItem(paper=slug, title=title, claim=claim) for slug, title, claim in found.items]
    return FollowList(items=items, total=found.total)


@router.get("/papers/{slug}/follows")
def followed(db: ReadSession, actor: CurrentActor, slug: Slug) -> Follows:
    """What one follows of a paper."""
    return _described(service.followed(db, actor, papers.get(db, slug)))


@router.put("/papers/{slug}/follows")
def follow(request: Request, actor: CurrentActor, slug: Slug, wanted: Follows) -> Follows:
    """Follow exactly this of a paper."""
    anchors = frozenset(wanted.claims) - {""} | ({""} if wanted.paper else set())
    with writing(request) as db:
        return _described(service.follow(db, actor, papers.get(db, slug), frozenset(anchors)))


def _described(anchors: frozenset[str]) -> Follows:
    return Follows(paper="" in anchors, claims=tuple(sorted(anchors - {""})))
