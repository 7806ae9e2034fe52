"""From records to the library, in two steps: a preview to look at, then confirmed or discarded.

What is new and what is there already is found out again when it is confirmed, in the transaction
that writes: the library may have changed meanwhile. What is there is only filled, never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import ConflictError, NotFoundError
from exactformer.studio.library import catalogue
from exactformer.studio.library.catalogue import whole
from exactformer.studio.library.matches import matches, resolve
from exactformer.studio.library.records import PaperRecord, checked, keys, to_dict
from exactformer.studio.library.tables import Paper, PendingImport
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import chunks

KEPT = timedelta(days=7)
MOST_WAITING = 20
BY = {
    "doi": "the same DOI",
    "arxiv": "the same arXiv id",
    "title": "the same title",
}


@dataclass(frozen=True)
class Item:
    """What would happen to a record: a new paper, or gaps of ``paper`` filled.

    ``repeats`` is the number of an earlier record in the file that speaks of the same work.
    """

    number: int
    record: PaperRecord
    paper: Paper | None = None
    by: str = ""
    gains: tuple[str, ...] = ()
    repeats: int | None = None
    citations: int = 0

    @property
    def is_new(self) -> bool:
        """Whether a paper would be written."""
        return self.paper is None and self.repeats is None


@dataclass(frozen=True)
class Outcome:
    """What an import did."""

    added: tuple[Paper, ...]
    filled: tuple[Paper, ...]
    unchanged: int
    citations: int


def preview(db: Session, records: Sequence[PaperRecord]) -> list[Item]:
    """Say what writing ``records`` would do. Nothing is written."""
    found = matches(db, records)
    papers: dict[int, Paper] = {}
    for some in chunks(sorted({match.paper_id for match in found if match})):
        for paper in db.scalars(select(Paper).where(Paper.id.in_(some)).options(*whole())):
            papers[paper.id] = paper
    known = resolve(db, (key for one in records for key in (*keys(one), *one.references)))
    inside: dict[str, int] = {}
    for number, record in enumerate(records, 1):
        for key in keys(record):
            inside.setdefault(key, number)
    items = []
    first_with: dict[str, int] = {}
    for number, (record, match) in enumerate(zip(records, found, strict=True), 1):
        own = keys(record)
        repeats = next((first_with[key] for key in own if key in first_with), None)
        first_with |= {key: repeats or number for key in own if key not in first_with}
        there = papers[match.paper_id] if match else None
        items.append(
            Item(
                number=number,
                record=record,
                paper=there,
                by=BY[match.by] if match else "",
                gains=tuple(catalogue.gains(there, record, known)) if there else (),
                repeats=repeats,
                citations=sum(key in known or key in inside for key in set(record.references)),
            )
        )
    return items


def store(db: Session, records: Sequence[PaperRecord]) -> Outcome:
    """Write new papers, fill gaps of those that are there, and tie citations."""
    items = preview(db, records)
    new = [item for item in items if item.is_new]
    added = catalogue.add(db, [item.record for item in new])
    paper_of = {item.number: paper for item, paper in zip(new, added, strict=True)}
    paper_of |= {item.number: item.paper for item in items if item.paper is not None}
    filled: dict[int, Paper] = {}
    references: dict[int, set[str]] = {}
    for item in items:
        paper = paper_of[item.number] if item.number in paper_of else paper_of[item.repeats or 0]
        may_gain = item.gains or item.repeats is not None
        if may_gain and catalogue.fill(db, paper, item.record):
            filled[paper.id] = paper
        references.setdefault(paper.id, set()).update(item.record.references)
    ties = catalogue.cite(db, references)
    fresh = {paper.id for paper in added}
    completed = tuple(paper for id, paper in filled.items() if id not in fresh)
    unchanged = len(items) - len(added) - len(completed)
    return Outcome(tuple(added), completed, unchanged, ties)


def write(db: Session, actor: Actor, format: str, records: Sequence[PaperRecord]) -> Outcome:
    """Store records, and note in the audit log what came of them."""
    outcome = store(db, records)
    for paper in outcome.added:
        audit.record(db, actor, "paper.import", "paper", paper.id, {"format": format})
    for paper in outcome.filled:
        audit.record(db, actor, "paper.fill", "paper", paper.id, {"format": format})
    return outcome


def propose(
    db: Session, actor: Actor, format: str, records: Sequence[PaperRecord]
) -> PendingImport:
    """Keep records until their owner has looked at the preview; old ones of hers are forgotten."""
    owner = actor.require("curator")
    old = PendingImport.created_at < now() - KEPT
    db.execute(delete(PendingImport).where(PendingImport.owner_id == owner, old))
    if len(waiting(db, actor)) >= MOST_WAITING:
        raise ConflictError(
            f"{MOST_WAITING} imports wait for you already; confirm or discard one of them first"
        )
    kept = PendingImport(owner_id=owner, format=format, records=[to_dict(r) for r in records])
    db.add(kept)
    db.flush()
    return kept


def waiting(db: Session, actor: Actor) -> list[PendingImport]:
    """Return the actor's imports that are neither confirmed nor discarded."""
    owner = actor.require("curator")
    mine = select(PendingImport).where(PendingImport.owner_id == owner)
    return list(db.scalars(mine.order_by(PendingImport.id.desc())))


def pending(db: Session, actor: Actor, id: int) -> tuple[PendingImport, list[PaperRecord]]:
    """Return an import that waits, and its records; it is its owner's and nobody else's."""
    owner = actor.require("curator")
    kept = db.get(PendingImport, id)
    if kept is None or kept.owner_id != owner:
        raise NotFoundError(
            f"there is no import {id} that waits for you; one that was confirmed or discarded is over"
        )
    return kept, [checked(fields, f"Record {n}") for n, fields in enumerate(kept.records, 1)]


def confirm(db: Session, actor: Actor, id: int) -> Outcome:
    """Write an import that waits."""
    kept, records = pending(db, actor, id)
    db.delete(kept)
    return write(db, actor, kept.format, records)


def discard(db: Session, actor: Actor, id: int) -> None:
    """Forget an import that waits."""
    kept, _ = pending(db, actor, id)
    db.delete(kept)
