"""Bringing a paper: one field for what names it, its form, the curators' queue; also for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import AliasPath, Field
from starlette.responses import HTMLResponse, Response

from exactformer.studio.errors import ConflictError, StudioError
from exactformer.studio.library.edits import with_identifiers
from exactformer.studio.library.paper_forms import PaperForm, fields_of, form_of
from exactformer.studio.library.tables import PAPER_KINDS
from exactformer.studio.proposals import service
from exactformer.studio.proposals.fetcher import Fetcher
from exactformer.studio.proposals.service import State
from exactformer.studio.security.actor import Actor
from exactformer.studio.security.rates import limit
from exactformer.studio.web.request import (
    WRITING,
    CurrentActor,
    ReadSession,
    Write,
    database_of,
    redirect,
    render,
    settings_of,
    writing,
)
from exactformer.studio.web.types import (
    Body,
    Clean,
    FormBody,
    Identifier,
    Listing,
    Out,
    PageNumber,
    Paging,
    Sent,
    SlugOf,
    listing,
)

api = APIRouter(prefix="/api/v1/proposals", tags=["proposals"])
pages = APIRouter(include_in_schema=False)

EACH = 20


def fetcher_of(request: Request) -> Fetcher:
    """Return what fetches for this studio, within what its owner allows."""
    fetcher: Fetcher = request.app.state.fetcher
    return fetcher


class NewProposal(Body):
    """A record in a format that imports read, or an identifier that the server may look up."""

    text: Annotated[Clean, Field(min_length=1, max_length=service.LONGEST)]


class PasteForm(FormBody):
    """Whatever names a paper."""

    what: Annotated[Clean, Field(max_length=service.LONGEST + 1000)] = ""


class Decision(Body):
    """What becomes of a proposal."""

    state: Literal["accepted", "declined"]


class DecisionForm(Decision, FormBody):
    """The same, from a form."""


class ProposalItem(Out):
    """A proposal; ``paper`` is the slug of what became of it."""

    id: int
    by: Annotated[str, Field(validation_alias=AliasPath("proposer", "handle"))]
    state: str
    paper: SlugOf
    created_at: datetime
    record: dict[str, Any]


@pages.get("/propose")
def paste(request: Request, actor: CurrentActor) -> HTMLResponse:
    """Ask for whatever names the paper."""
    actor.require("reader")
    return _pasting(request)


@pages.post("/propose", dependencies=WRITING)
def read(request: Request, actor: CurrentActor, form: Sent[PasteForm]) -> Response:
    """Read what was pasted, and show the record to complete; nothing is stored yet."""
    fetcher = _fetcher(request, actor)
    try:
        with database_of(request).session() as db:
            reading = service.read(db, fetcher, form.what)
    except StudioError as refusal:
        return _pasting(request, form.what, str(refusal), refusal.status)
    if reading.paper is not None:
        return _pasting(request, form.what, here=(reading.paper.slug, reading.paper.title))
    return _completing(request, form_of(reading.fields), note=reading.note)


def _fetcher(request: Request, actor: Actor) -> Fetcher:
    """Return what fetches for a reader, within her rate."""
    actor.require("reader")
    fetcher = fetcher_of(request)
    if fetcher.hosts:
        limit(request, "fetch", settings_of(request).fetch_rate)
    return fetcher


@pages.post("/proposals", dependencies=WRITING)
def propose(write: Write, form: Sent[PaperForm]) -> Response:
    """Keep the proposal, or say what cannot be accepted and keep what was typed."""
    try:
        write(service.propose, with_identifiers(fields_of(form)))
    except StudioError as refusal:
        if refusal.status not in (409, 422):
            raise
        return _completing(write.request, form, error=str(refusal), status=refusal.status)
    return redirect(write.request, "/proposals")


@api.post("", status_code=201, dependencies=WRITING)
def write_proposal(request: Request, actor: CurrentActor, proposal: NewProposal) -> ProposalItem:
    """Propose a paper; the text must give at least its title."""
    fetcher = _fetcher(request, actor)
    with database_of(request).session() as db:
        reading = service.read(db, fetcher, proposal.text)
    if reading.paper is not None:
        raise ConflictError(f"The library has this paper already: {reading.paper.slug}.")
    with writing(request) as db:
        return ProposalItem.model_validate(service.propose(db, actor, reading.fields))


@pages.get("/proposals")
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


@api.get("")
def list_proposals(
    db: ReadSession, actor: CurrentActor, paging: Paging, state: State = "open"
) -> Listing[ProposalItem]:
    """One's own proposals; to curators, everybody's."""
    found = service.listing(db, actor, state, paging.limit, paging.offset)
    return listing(map(ProposalItem.model_validate, found.items), found.total)


@pages.post("/proposals/{id}")
def decide(write: Write, id: Identifier, form: Sent[DecisionForm]) -> Response:
    """Accept or decline."""
    write(service.decide, id, form.state)
    return redirect(write.request, "/proposals")


@api.put("/{id}")
def write_decision(
    request: Request, actor: CurrentActor, id: Identifier, decision: Decision
) -> ProposalItem:
    """Accept or decline; for curators."""
    with writing(request) as db:
        return ProposalItem.model_validate(service.decide(db, actor, id, decision.state))


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


routers = (api, pages)
