"""The queue of reports in which moderators decide; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.models import CaseOut, FlagOut, State
from exactformer.studio.opinions.moderation import LIMIT

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1/moderation", tags=["moderation"])

CASES = 20
"""Cases on a page."""


class NewDecision(web.Body):
    """Uphold (hide), dismiss, or open again; the note is told to the author."""

    state: State
    note: Annotated[web.Clean, Field(max_length=LIMIT)] = ""


@pages.get("/moderation")
def queue(read: web.Read, state: State = "open", page: web.PageNumber = 1) -> HTMLResponse:
    """What waits for a decision, or was decided."""
    cases = read(moderation.queue, state, CASES, (page - 1) * CASES)
    waiting = moderation.waiting(read.db)
    return read.render("moderation/queue.html", cases=cases, state=state, waiting=waiting)


@api.get("/flags")
def api_queue(read: web.Read, paging: web.Paging, state: State = "open") -> web.Listing[CaseOut]:
    """What was reported, with every report on it; for curators."""
    return CaseOut.listed(read(moderation.queue, state, *paging))


@api.get("/flags/{flag_id}", name="read")
def read_one(read: web.Read, flag_id: web.Identifier) -> FlagOut:
    """One report; for curators."""
    return FlagOut.model_validate(read(moderation.get, flag_id))


@pages.post("/moderation/{flag_id}")
def decide(
    request: Request,
    actor: web.CurrentActor,
    flag_id: web.Identifier,
    decision: Annotated[State, Form()],
    note: web.Line = "",
) -> Response:
    """Decide, or take a decision back."""
    with web.writing(request) as db:
        before = moderation.get(db, actor, flag_id).state
        moderation.decide(db, actor, flag_id, decision, note)
    return web.redirect(request, f"/moderation?state={before}")


@api.put("/flags/{flag_id}")
def api_decide(write: web.Write, flag_id: web.Identifier, decision: NewDecision) -> FlagOut:
    """Decide about what was reported, or take a decision back; for curators."""
    return FlagOut.model_validate(write(moderation.decide, flag_id, decision.state, decision.note))


routers = (pages, api)
