"""Reporting a review or a comment, and the queue in which moderators decide."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio.opinions import moderation
from exactformer.studio.opinions.review_pages import PageNumber
from exactformer.studio.storage.tables import Paper
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    FormBody,
    Identifier,
    ReadSession,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

CASES = 20
"""Cases on a page."""

State = Literal["open", "upheld", "dismissed"]


class ReasonForm(FormBody):
    """Why moderators should look; its length is judged by the service."""

    reason: Clean = ""


class DecisionForm(FormBody):
    """Uphold, dismiss, or open again; the note is told to the author."""

    decision: State
    note: Clean = ""


@router.get("/reviews/{subject_id}/flag")
def review_form(
    request: Request, db: ReadSession, actor: CurrentActor, subject_id: Identifier
) -> HTMLResponse:
    """Ask why a review is reported."""
    actor.require("reader")
    subject = moderation.readable_subject(db, actor, "review", subject_id)
    paper = db.get_one(Paper, subject.paper_id)
    return render(request, "moderation/flag.html", kind="review", subject=subject, paper=paper)


@router.get("/comments/{subject_id}/flag")
def comment_form(
    request: Request, db: ReadSession, actor: CurrentActor, subject_id: Identifier
) -> HTMLResponse:
    """Ask why a comment is reported."""
    actor.require("reader")
    subject = moderation.readable_subject(db, actor, "comment", subject_id)
    paper = db.get_one(Paper, subject.paper_id)
    return render(request, "moderation/flag.html", kind="comment", subject=subject, paper=paper)


@router.post("/reviews/{subject_id}/flag", dependencies=WRITING)
def report_review(
    request: Request,
    actor: CurrentActor,
    subject_id: Identifier,
    form: Annotated[ReasonForm, Form()],
) -> Response:
    """Report a review."""
    return _report(request, actor, "review", subject_id, form.reason)


@router.post("/comments/{subject_id}/flag", dependencies=WRITING)
def report_comment(
    request: Request,
    actor: CurrentActor,
    subject_id: Identifier,
    form: Annotated[ReasonForm, Form()],
) -> Response:
    """Report a comment."""
    return _report(request, actor, "comment", subject_id, form.reason)


@router.get("/moderation")
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


@router.post("/moderation/{flag_id}")
def decide(
    request: Request,
    actor: CurrentActor,
    flag_id: Identifier,
    form: Annotated[DecisionForm, Form()],
) -> Response:
    """Decide, or take a decision back."""
    with writing(request) as db:
        before = moderation.get(db, actor, flag_id).state
        moderation.decide(db, actor, flag_id, form.decision, form.note)
    return redirect(request, f"/moderation?state={before}")


def _report(
    request: Request, actor: CurrentActor, kind: str, subject_id: int, reason: str
) -> Response:
    with writing(request) as db:
        moderation.report(db, actor, kind, subject_id, reason)
    return redirect(request, f"/{kind}s/{subject_id}?reported=true")
