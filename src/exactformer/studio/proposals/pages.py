"""Bringing a paper: one field for whatever names it, the form it fills, and the curators' queue."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library.editing import with_identifiers
from exactformer.studio.library.editing_pages import PaperForm, fields_of, form_of
from exactformer.studio.library.tables import PAPER_KINDS
from exactformer.studio.proposals import service
from exactformer.studio.proposals.fetching import Fetcher
from exactformer.studio.proposals.service import State
from exactformer.studio.security.rates import limit
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    FormBody,
    Identifier,
    ReadSession,
    database_of,
    redirect,
    render,
    settings_of,
    writing,
)

router = APIRouter(include_in_schema=False)

PageNumber = Annotated[int, Query(ge=1, le=10_000)]

EACH = 20
Pasted = Annotated[Clean, Field(max_length=service.LONGEST + 1000)]


class PasteForm(FormBody):
    """Whatever names a paper."""

    what: Pasted = ""


class DecisionForm(FormBody):
    """What becomes of a proposal."""

    state: Literal["accepted", "declined"]


def fetcher_of(request: Request) -> Fetcher:
    """Return what fetches for this studio, within what its owner allows."""
    fetcher: Fetcher = request.app.state.fetcher
    return fetcher


@router.get("/propose")
def paste(request: Request, actor: CurrentActor) -> HTMLResponse:
    """Ask for whatever names the paper."""
    actor.require("reader")
    return _pasting(request)


@router.post("/propose", dependencies=WRITING)
def read(request: Request, actor: CurrentActor, form: Annotated[PasteForm, Form()]) -> Response:
    """Read what was pasted, and show the record to complete; nothing is stored yet."""
    actor.require("reader")
    fetcher = fetcher_of(request)
    if fetcher.hosts:
        limit(request, "fetch", settings_of(request).fetch_rate)
    try:
        with database_of(request).session() as db:
            reading = service.read(db, fetcher, form.what)
            here = (reading.paper.slug, reading.paper.title) if reading.paper else None
    except StudioError as refusal:
        return _pasting(request, form.what, str(refusal), refusal.status)
    if here is not None:
        return _pasting(request, form.what, here=here)
    return _completing(request, form_of(reading.fields), note=reading.note)


@router.post("/proposals", dependencies=WRITING)
def propose(request: Request, actor: CurrentActor, form: Annotated[PaperForm, Form()]) -> Response:
    """Keep the proposal, or say what cannot be accepted and keep what was typed."""
    try:
        with writing(request) as db:
            service.propose(db, actor, with_identifiers(fields_of(form)))
    except StudioError as refusal:
        if refusal.status not in (409, 422):
            raise
        return _completing(request, form, error=str(refusal), status=refusal.status)
    return redirect(request, "/proposals")


@router.get("/proposals")
def proposals(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    state: State = "open",
    page: PageNumber = 1,
) -> HTMLResponse:
    """Show what waits and what was decided: one's own proposals, or all to curators."""
    found = service.listing(db, actor, state, EACH, (page - 1) * EACH)
    return render(request, "proposals/list.html", found=found, state=state, page=page, each=EACH)


@router.post("/proposals/{id}")
def decide(
    request: Request, actor: CurrentActor, id: Identifier, form: Annotated[DecisionForm, Form()]
) -> Response:
    """Accept or decline."""
    with writing(request) as db:
        service.decide(db, actor, id, form.state)
    return redirect(request, "/proposals")


def _pasting(
    request: Request,
    what: str = "",
    error: str = "",
    status: int = 200,
    here: tuple[str, str] | None = None,
) -> HTMLResponse:
    hosts = fetcher_of(request).hosts
    return render(
        request,
        "proposals/paste.html",
        status=status,
        what=what,
        error=error,
        here=here,
        hosts=hosts,
    )


def _completing(
    request: Request, form: PaperForm, note: str = "", error: str = "", status: int = 200
) -> HTMLResponse:
    return render(
        request,
        "proposals/record.html",
        status=status,
        form=form,
        note=note,
        error=error,
        kinds=PAPER_KINDS,
    )
