"""What a library begins with: the works this project stands on, and what they cite.

``works/NAME.json`` is a record, ``works/NAME.references.json`` the records of its reference list; its
claims are those of the ledger. Fang, Yun, Jiang and Li are three of the four works; the fourth,
a page about Fang on a scholarly site, is not a work to cite: these pages are made after it. In its
place stands the talk through which this project reads Yun.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.claims import PAPERS, ledger
from exactformer.studio.library import catalogue, papers
from exactformer.studio.library.formats import own
from exactformer.studio.library.matches import match
from exactformer.studio.library.records import ClaimRecord, PaperRecord, keys
from exactformer.studio.library.tables import Paper
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.audit import AuditEntry

NAMES = ("fang-2022", "yun-2020", "jiang-li-2023", "so-2020")
_SEEDER = Actor(None, "", "exactformer", "admin")
KIND = "seed"  # of entries in the audit log: they say which paper a work has become


def seed(db: Session) -> list[str]:
    """Add works and claims that are not there yet; return the names of works that were added.

    A work that was added once is known by its entry in the audit log, whatever curators have made
    of its page since; so nothing comes twice, and nothing that was edited is put back.
    """
    there = seeded(db)
    new = [name for name in NAMES if name not in there]
    for name in new:
        there[name] = _add(db, name)
        audit.record(db, _SEEDER, "library.seed", KIND, there[name].id, {"work": name})
    for name in new:
        cited = references(name)
        catalogue.store(db, cited)
        catalogue.cite(db, {there[name].id: [keys(record)[0] for record in cited]})
    for name in NAMES:
        catalogue.add_claims(there[name], work(name).claims)
    db.flush()
    return new


def featured(db: Session) -> tuple[Paper, ...]:
    """Return the works the library began with, in their order."""
    there = seeded(db)
    return papers.by_ids(db, [there[name].id for name in NAMES if name in there])


@cache
def work(name: str) -> PaperRecord:
    """Return a work as it is shipped, with its claims from the ledger."""
    return replace(own.read(_data(f"{name}.json"))[0], claims=tuple(_claims(name)))


def _claims(name: str) -> Iterator[ClaimRecord]:
    for paper in PAPERS:
        for claim in ledger(paper):
            if claim.work == name:
                entry = f"{paper}/{claim.id}"
                yield ClaimRecord(claim.id, claim.kind, claim.title, claim.says, entry)


@cache
def references(name: str) -> tuple[PaperRecord, ...]:
    """Return what a work cites, as its reference list gives it."""
    path = f"{name}.references.json"
    return tuple(own.read(_data(path))) if _folder().joinpath(path).is_file() else ()


def seeded(db: Session) -> dict[str, Paper]:
    """Return the papers that the shipped works have become, by the works' names."""
    rows = db.execute(
        select(AuditEntry, Paper)
        .join(Paper, Paper.id == AuditEntry.subject_id)
        .where(AuditEntry.subject_kind == KIND)
    )
    return {entry.detail["work"]: paper for entry, paper in rows}


def _add(db: Session, name: str) -> Paper:
    """Add a work, or adopt the paper that somebody has brought before."""
    record = work(name)
    known = match(db, record)
    if known is None:
        return catalogue.add(db, record)
    paper = db.get_one(Paper, known)
    catalogue.fill(db, paper, record)
    return paper


def _folder() -> Traversable:
    return resources.files(__package__).joinpath("works")


def _data(path: str) -> Any:
    return json.loads(_folder().joinpath(path).read_text(encoding="utf-8"))
