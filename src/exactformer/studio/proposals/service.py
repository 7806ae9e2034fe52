"""Proposing papers: what a reader pastes becomes a record, and curators decide about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import ConflictError, InvalidError, NotFoundError
from exactformer.studio.library import catalogue, formats, names, search
from exactformer.studio.library.matches import match
from exactformer.studio.library.records import PaperRecord, checked, to_dict
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.proposals.tables import Proposal
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.slices import Slice, cut

LONGEST = 20_000
"""Characters of what is pasted."""

MOST_OPEN = 20
"""Proposals of one reader that may wait at once."""

State = Literal["open", "accepted", "declined"]


@dataclass(frozen=True)
class Reading:
    """What a pasted text says: fields of a record, or the paper that is here already.

    ``note`` says why fields are missing and have to be filled in by hand.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    paper: Paper | None = None
    note: str = ""


def read(db: Session, text: str) -> Reading:
    """Return what ``text`` says: an arXiv id, a DOI, a web address, or a record in a known format."""
    text = text.strip()
    if not text:
        raise InvalidError("Paste an arXiv id, a DOI, an address, or a BibTeX record.")
    if len(text) > LONGEST:
        raise InvalidError(f"The text has {len(text):,} characters; the limit is {LONGEST:,}.")
    if (known := search.by_identifier(db, text)) is not None and "\n" not in text:
        return Reading(paper=db.get_one(Paper, known))
    named = _named(text)
    if named is not None:
        return Reading(named, note="Nothing is fetched from elsewhere: fill in the rest by hand.")
    return _recognised(db, _single(text))


def _named(text: str) -> dict[str, Any] | None:
    """Return the identifier in a single line, in the field of a record that it belongs to."""
    if any(letter.isspace() for letter in text) or "{" in text:
        return None
    doi = names.doi(text)
    arxiv = names.arxiv_id(text) or names.arxiv_id_of_doi(doi)
    if arxiv:
        page = f"https://arxiv.org/abs/{arxiv}"
        return {"arxiv_id": arxiv, "url": page, "kind": "preprint", "source": "arXiv"}
    if doi:
        return {"doi": doi, "kind": "article"}
    if address := names.web_address(text):
        return {"url": address}
    raise InvalidError(
        f"{text[:80]!r} is not an arXiv id, a DOI or an address that begins with https://."
    )


def _single(text: str) -> PaperRecord:
    """Return the one record of a text."""
    records = formats.read(text)
    if len(records) != 1:
        raise InvalidError(f"These are {len(records)} records; propose one at a time.")
    if records[0].claims:
        raise InvalidError("A proposal has no claims: curators add them later.")
    return records[0]


def _recognised(db: Session, record: PaperRecord) -> Reading:
    known = match(db, record)
    return Reading(to_dict(record), None if known is None else db.get_one(Paper, known))


def propose(db: Session, actor: Actor, fields: dict[str, Any]) -> Proposal:
    """Keep a record for curators to look at."""
    reader = actor.require("reader")
    record = replace(checked(fields, "The proposal"), claims=())
    if (paper := _recognised(db, record).paper) is not None:
        raise ConflictError(f"The library has this paper already: {paper.title}.")
    open_ones = select(func.count()).select_from(Proposal)
    open_ones = open_ones.where(Proposal.proposer_id == reader, Proposal.state == "open")
    if (db.scalar(open_ones) or 0) >= MOST_OPEN:
        raise ConflictError(
            f"{MOST_OPEN} of your proposals wait already. Curators will look at them."
        )
    kept = Proposal(proposer_id=reader, record=to_dict(record))
    db.add(kept)
    db.flush()
    audit.record(db, actor, "proposal.create", "proposal", kept.id, {"title": record.title[:200]})
    return kept


def listing(
    db: Session, actor: Actor, state: State, limit: int, offset: int = 0
) -> Slice[Proposal]:
    """Return proposals in one state: one's own, for curators everybody's; waiting ones first come."""
    reader = actor.require("reader")
    statement = select(Proposal).where(Proposal.state == state)
    if not actor.at_least("curator"):
        statement = statement.where(Proposal.proposer_id == reader)
    order = Proposal.id if state == "open" else Proposal.id.desc()
    both = selectinload(Proposal.proposer), selectinload(Proposal.paper)
    return cut(db, statement.order_by(order), limit, offset, *both)


def decide(db: Session, actor: Actor, id: int, state: Literal["accepted", "declined"]) -> Proposal:
    """Write the proposed paper, or decline it; its proposer is told."""
    curator = actor.require("curator")
    statement = select(Proposal).where(Proposal.id == id).with_for_update()
    proposal = db.scalar(statement.execution_options(populate_existing=True))
    if proposal is None:
        raise NotFoundError(f"There is no proposal {id}.")
    if proposal.state != "open":
        raise ConflictError(f"This proposal was {proposal.state} meanwhile.")
    record = checked(proposal.record, "The proposal")
    if state == "accepted":
        (stored,) = catalogue.store(db, [record])
        proposal.paper_id = stored.paper.id
        if stored.is_new or stored.gained:
            action = "paper.add" if stored.is_new else "paper.fill"
            audit.record(db, actor, action, "paper", stored.paper.id, {"proposal": id})
    proposal.state, proposal.decided_by_id = state, curator
    db.flush()
    audit.record(db, actor, f"proposal.{state}", "proposal", id, {"title": record.title[:200]})
    notices.decided(
        db,
        actor,
        state,
        [proposal.proposer_id],
        paper_id=proposal.paper_id,
        title=record.title,
    )
    return proposal
