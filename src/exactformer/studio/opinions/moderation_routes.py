"""The queue of reports in which moderators decide."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.opinions import moderation

router = APIRouter()

State = Literal["open", "upheld", "dismissed"]

CASES = 20
"""Cases on a page."""


@router.get("/moderation")
def queue(read: web.Read, state: State = "open", page: web.PageNumber = 1) -> HTMLResponse:
    """What waits for a decision, or was decided."""
    cases = read(moderation.queue, state, CASES, (page - 1) * CASES)
    waiting = moderation.waiting(read.db)
    return read.render("moderation/queue.html", cases=cases, state=state, waiting=waiting)


@router.post("/moderation/{flag_id}")
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
