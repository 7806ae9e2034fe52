"""Reports and decisions for programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from exactformer.studio.opinions import descriptions, moderation
from exactformer.studio.opinions.moderation import LIMIT, Case
from exactformer.studio.opinions.views import CommentView, ReviewView
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1/moderation", tags=["moderation"])

State = Literal["open", "upheld", "dismissed"]


class Reason(Body):
    """Why moderators should look."""

    reason: Annotated[Clean, Field(min_length=1, max_length=LIMIT)]


class NewDecision(Body):
    """Uphold (hide), dismiss, or open again; the note is told to the author."""

    state: State
    note: Annotated[Clean, Field(max_length=LIMIT)] = ""


@router.get("/flags")
def queue(
    db: ReadSession, actor: CurrentActor, paging: Paging, state: State = "open"
) -> dict[str, Any]:
    """What was reported, with every report on it; for curators."""
    found = moderation.queue(db, actor, state, paging.limit, paging.offset)
    return listing(map(_case, found.items), found.total)


@router.get("/flags/{flag_id}")
def read(db: ReadSession, actor: CurrentActor, flag_id: Identifier) -> dict[str, Any]:
    """One report; for curators."""
    return descriptions.flag(moderation.get(db, actor, flag_id))


@router.put("/flags/{flag_id}")
def decide(
    request: Request, actor: CurrentActor, flag_id: Identifier, decision: NewDecision
) -> dict[str, Any]:
    """Decide about what was reported, or take a decision back; for curators."""
    with writing(request) as db:
        flag = moderation.decide(db, actor, flag_id, decision.state, decision.note)
    return descriptions.flag(flag)


def _case(case: Case) -> dict[str, Any]:
    return {
        "kind": case.kind,
        "paper": case.paper.slug,
        "subject": _subject(case.opinion),
        "flags": [descriptions.flag(flag) for flag in case.flags],
    }


def _subject(opinion: ReviewView | CommentView | None) -> dict[str, Any] | None:
    if isinstance(opinion, ReviewView):
        return descriptions.review(opinion)
    return descriptions.comment(opinion) if opinion else None
