"""Bringing a paper: one field for what names it, its form, the curators' queue."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.errors import ConflictError, InvalidError, StudioError
from exactformer.studio.library.edits import PaperForm, fields_of, form_of, with_identifiers
from exactformer.studio.library.tables import PAPER_KINDS
from exactformer.studio.proposals import service
from exactformer.studio.proposals.service import State

router = APIRouter()

EACH = 20
Decided = Literal["accepted", "declined"]
What = Annotated[web.Clean, Form(max_length=service.LONGEST + 1000)]


@router.get("/propose")
def paste(request: Request, actor: web.CurrentActor) -> HTMLResponse:
    """Ask for whatever names the paper."""
    actor.require("reader")
    return _pasting(request)


@router.post("/propose", dependencies=web.WRITING)
def read(request: Request, actor: web.CurrentActor, what: What = "") -> Response:
    """Read what was pasted, and show the record to complete; nothing is stored yet."""
    actor.require("reader")
    try:
        with web.database_of(request).session() as db:
            reading = service.read(db, what)
    except StudioError as refusal:
        return _pasting(request, what, refusal)
    if reading.paper is not None:
        return _pasting(request, what, here=(reading.paper.slug, reading.paper.title))
    return _completing(request, form_of(reading.fields), note=reading.note)


@router.post("/proposals", dependencies=web.WRITING)
def propose(write: web.Write, form: web.Sent[PaperForm]) -> Response:
    """Keep the proposal, or say what cannot be accepted and keep what was typed."""
    try:
        write(service.propose, with_identifiers(fields_of(form)))
    except (ConflictError, InvalidError) as refusal:
        return _completing(write.request, form, refusal=refusal)
    return web.redirect(write.request, "/proposals")


@router.get("/proposals")
def proposals(read: web.Read, state: State = "open", page: web.PageNumber = 1) -> HTMLResponse:
    """Show what waits and what was decided: one's own proposals, or all to curators."""
    found = read(service.listing, state, EACH, (page - 1) * EACH)
    return read.render("proposals/list.html", found=found, state=state)


@router.post("/proposals/{id}")
def decide(write: web.Write, id: web.Identifier, state: Annotated[Decided, Form()]) -> Response:
    """Accept or decline."""
    write(service.decide, id, state)
    return web.redirect(write.request, "/proposals")


def _pasting(
    request: Request,
    what: str = "",
    refusal: StudioError | None = None,
    here: tuple[str, str] | None = None,
) -> HTMLResponse:
    return web.render_form(request, "proposals/paste.html", refusal, what=what, here=here)


def _completing(
    request: Request, form: PaperForm, note: str = "", refusal: StudioError | None = None
) -> HTMLResponse:
    return web.render_form(
        request, "proposals/record.html", refusal, form=form, note=note, kinds=PAPER_KINDS
    )
