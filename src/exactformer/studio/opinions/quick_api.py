"""Votes, reactions and saves for programs, and the renderer that previews what one writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field

from exactformer.studio.library import papers
from exactformer.studio.opinions import reactions, saves, votes
from exactformer.studio.opinions.tables import REACTIONS
from exactformer.studio.opinions.views import renderer
from exactformer.studio.web import markup
from exactformer.studio.web.rate_limits import PREVIEW
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Paging,
    ReadSession,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["opinions"])

Slug = Annotated[Clean, Path(max_length=120)]
Kind = Annotated[Clean, Path(max_length=30, description=f"One of {', '.join(REACTIONS)}.")]


class NewVote(Body):
    """Like (1), dislike (-1) or neither (0)."""

    value: Literal[-1, 0, 1]


class Text(Body):
    """Markdown, and the paper whose claims it may mention."""

    text: Annotated[Clean, Field(max_length=markup.LIMIT)]
    paper: Annotated[Clean, Field(max_length=120)] | None = None


@router.get("/papers/{slug}/votes")
def read_votes(db: ReadSession, actor: CurrentActor, slug: Slug) -> votes.Tally:
    """How a paper is liked."""
    return votes.tally(db, actor, papers.get(db, slug))


@router.put("/papers/{slug}/votes")
def vote(request: Request, actor: CurrentActor, slug: Slug, vote: NewVote) -> votes.Tally:
    """Set one's vote; the same again changes nothing."""
    with writing(request) as db:
        return votes.cast(db, actor, papers.get(db, slug), vote.value)


@router.get("/papers/{slug}/reactions")
def read_reactions(db: ReadSession, actor: CurrentActor, slug: Slug) -> dict[str, Any]:
    """How many react in each way."""
    return _reactions(reactions.tally(db, actor, papers.get(db, slug)))


@router.put("/papers/{slug}/reactions/{kind}")
def react(request: Request, actor: CurrentActor, slug: Slug, kind: Kind) -> dict[str, Any]:
    """Show a reaction; the same again changes nothing."""
    with writing(request) as db:
        return _reactions(reactions.react(db, actor, papers.get(db, slug), kind, True))


@router.delete("/papers/{slug}/reactions/{kind}")
def withdraw(request: Request, actor: CurrentActor, slug: Slug, kind: Kind) -> dict[str, Any]:
    """Take a reaction back."""
    with writing(request) as db:
        return _reactions(reactions.react(db, actor, papers.get(db, slug), kind, False))


@router.get("/papers/{slug}/saves")
def read_saves(db: ReadSession, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """How many readers keep a paper."""
    return saves.tally(db, actor, papers.get(db, slug))


@router.put("/papers/{slug}/saves")
def save(request: Request, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """Keep a paper for later."""
    with writing(request) as db:
        return saves.save(db, actor, papers.get(db, slug), True)


@router.delete("/papers/{slug}/saves")
def forget(request: Request, actor: CurrentActor, slug: Slug) -> saves.SaveCount:
    """Keep a paper no longer."""
    with writing(request) as db:
        return saves.save(db, actor, papers.get(db, slug), False)


@router.get("/saves")
def saved(db: ReadSession, actor: CurrentActor, paging: Paging) -> dict[str, Any]:
    """The papers one keeps."""
    found = saves.saved(db, actor, paging.limit, paging.offset)
    items = [{"slug": paper.slug, "title": paper.title} for paper in found.items]
    return listing(items, found.total)


@router.post("/markup", dependencies=PREVIEW)
def preview(db: ReadSession, actor: CurrentActor, text: Text) -> dict[str, str]:
    """Render a text as it would be shown."""
    actor.require("reader")
    paper = papers.get(db, text.paper) if text.paper else None
    return {"html": renderer(db, paper, [text.text])(text.text)}


def _reactions(counts: tuple[reactions.ReactionCount, ...]) -> dict[str, Any]:
    items = [{"kind": each.kind, "count": each.count, "mine": each.mine} for each in counts]
    return listing(items, len(items))
