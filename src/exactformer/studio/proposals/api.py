"""Proposals for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from exactformer.studio.errors import ConflictError
from exactformer.studio.proposals import service
from exactformer.studio.proposals.pages import fetcher_of
from exactformer.studio.proposals.service import State
from exactformer.studio.proposals.tables import Proposal
from exactformer.studio.security.rates import limit
from exactformer.studio.web.rate_limits import WRITING
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    database_of,
    settings_of,
    writing,
)

router = APIRouter(prefix="/api/v1/proposals", tags=["proposals"])


class NewProposal(Body):
    """A record in a format that imports read, or an identifier that the server may look up."""

    text: Annotated[Clean, Field(min_length=1, max_length=service.LONGEST)]


class Decision(Body):
    """What becomes of a proposal."""

    state: Literal["accepted", "declined"]


class ProposalItem(BaseModel):
    """A proposal; ``paper`` is the slug of what became of it."""

    id: int
    by: str
    state: str
    paper: str | None
    created_at: datetime
    record: dict[str, Any]


class ProposalList(BaseModel):
    """A stretch of the proposals in one state."""

    items: list[ProposalItem]
    total: int


@router.get("")
def proposals(
    db: ReadSession, actor: CurrentActor, paging: Paging, state: State = "open"
) -> ProposalList:
    """One's own proposals; to curators, everybody's."""
    found = service.listing(db, actor, state, paging.limit, paging.offset)
    return ProposalList(items=[_item(each) for each in found.items], total=found.total)


@router.post("", status_code=201, dependencies=WRITING)
def propose(request: Request, actor: CurrentActor, proposal: NewProposal) -> ProposalItem:
    """Propose a paper; the text must give at least its title."""
    actor.require("reader")
    fetcher = fetcher_of(request)
    if fetcher.hosts:
        limit(request, "fetch", settings_of(request).fetch_rate)
    with database_of(request).session() as db:
        reading = service.read(db, fetcher, proposal.text)
        if reading.paper is not None:
            raise ConflictError(f"The library has this paper already: {reading.paper.slug}.")
    with writing(request) as db:
        return _item(service.propose(db, actor, reading.fields))


@router.put("/{id}")
def decide(
    request: Request, actor: CurrentActor, id: Identifier, decision: Decision
) -> ProposalItem:
    """Accept or decline; for curators."""
    with writing(request) as db:
        return _item(service.decide(db, actor, id, decision.state))


def _item(proposal: Proposal) -> ProposalItem:
    return ProposalItem(
        id=proposal.id,
        by=proposal.proposer.handle,
        state=proposal.state,
        paper=proposal.paper.slug if proposal.paper else None,
        created_at=proposal.created_at,
        record=proposal.record,
    )
