"""The queue of reports in which moderators decide; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.models import CaseOut, CommentOut, FlagOut, ReviewOut, State
from exactformer.studio.opinions.moderation import LIMIT, Case
from exactformer.studio.opinions.views import ReviewView
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    Write,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import (
    Body,
    Clean,
    FormBody,
    Identifier,
    Listing,
    PageNumber,
    Paging,
    Sent,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1/moderation", tags=["moderation"])

CASES = 20
"""Cases on a page."""


class DecisionForm(FormBody):
    """Uphold, dismiss, or open again; the note is told to the author."""

    decision: State
    note: Clean = ""


class NewDecision(Body):
    """Uphold (hide), dismiss, or open again; the note is told to the author."""

    state: State
    note: Annotated[Clean, Field(max_length=LIMIT)] = ""


@pages.get("/moderation")
def queue(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    state: State = "open",
    page: PageNumber = 1,
) -> HTMLResponse:
    """What waits for a decision, or was decided."""
    cases = moderation.queue(db, actor, state, CASES, (page - 1) * CASES)
    return render(
        request, "moderation/queue.html", cases=cases, state=state, waiting=moderation.waiting(db)
    )


@api.get("/flags")
def api_queue(
    db: ReadSession, actor: CurrentActor, paging: Paging, state: State = "open"
) -> Listing[CaseOut]:
    """What was reported, with every report on it; for curators."""
    found = moderation.queue(db, actor, state, paging.limit, paging.offset)
    return listing(map(_case, found.items), found.total)


@api.get("/flags/{flag_id}")
def read(db: ReadSession, actor: CurrentActor, flag_id: Identifier) -> FlagOut:
    """One report; for curators."""
    return FlagOut.model_validate(moderation.get(db, actor, flag_id))


@pages.post("/moderation/{flag_id}")
def decide(
    request: Request, actor: CurrentActor, flag_id: Identifier, form: Sent[DecisionForm]
) -> Response:
    """Decide, or take a decision back."""
    with writing(request) as db:
        before = moderation.get(db, actor, flag_id).state
        moderation.decide(db, actor, flag_id, form.decision, form.note)
    return redirect(request, f"/moderation?state={before}")


@api.put("/flags/{flag_id}")
def api_decide(write: Write, flag_id: Identifier, decision: NewDecision) -> FlagOut:
    """Decide about what was reported, or take a decision back; for curators."""
    return FlagOut.model_validate(write(moderation.decide, flag_id, decision.state, decision.note))


def _case(case: Case) -> CaseOut:
    opinion, slug = case.opinion, case.paper.slug
    subject: ReviewOut | CommentOut | None = None
    if isinstance(opinion, ReviewView):
        subject = ReviewOut.of(opinion, slug)
    elif opinion is not None:
        subject = CommentOut.of(opinion, slug)
    flags = [FlagOut.model_validate(flag) for flag in case.flags]
    return CaseOut(kind=case.kind, paper=slug, subject=subject, flags=flags)


routers = (pages, api)
