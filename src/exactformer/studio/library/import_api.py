"""Imports for programs: send a file, look at what would happen, confirm or discard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, File, Request, UploadFile
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.library import importing
from exactformer.studio.library.importing import Item
from exactformer.studio.library.records import PaperRecord, to_dict
from exactformer.studio.storage.housekeeping import PendingImport
from exactformer.studio.web.request import (
    CurrentActor,
    Identifier,
    ReadSession,
    database_of,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1/imports", tags=["imports"])


@router.get("")
def waiting(db: ReadSession, actor: CurrentActor) -> dict[str, Any]:
    """One's imports that are neither confirmed nor discarded."""
    found = importing.waiting(db, actor)
    return listing(map(_brief, found), len(found))


@router.post("", status_code=201)
def send(
    request: Request, actor: CurrentActor, file: Annotated[UploadFile, File()]
) -> dict[str, Any]:
    """Send a file (BibTeX, CSL-JSON, arXiv Atom, OpenAlex JSON, or an export); nothing is written.

    ``left_out`` says what is wrong with records that cannot be read.
    """
    actor.require("curator")
    problems: list[str] = []
    format, records = importing.read(file.file.read(), problems)
    with writing(request) as db:
        kept = importing.propose(db, actor, format, records)
    with database_of(request).session() as db:
        return _whole(db, kept, records) | {"left_out": problems}


@router.get("/{id}")
def read(db: ReadSession, actor: CurrentActor, id: Identifier) -> dict[str, Any]:
    """What an import that waits would do now."""
    return _whole(db, *importing.pending(db, actor, id))


@router.post("/{id}/confirm")
def confirm(request: Request, actor: CurrentActor, id: Identifier) -> dict[str, Any]:
    """Write it. What is there already is found out again, and only filled, never overwritten."""
    with writing(request) as db:
        outcome = importing.confirm(db, actor, id)
        return {
            "added": [paper.slug for paper in outcome.added],
            "filled": [paper.slug for paper in outcome.filled],
            "unchanged": outcome.unchanged,
            "citations": outcome.citations,
        }


@router.delete("/{id}", status_code=204)
def discard(request: Request, actor: CurrentActor, id: Identifier) -> Response:
    """Forget it."""
    with writing(request) as db:
        importing.discard(db, actor, id)
    return Response(status_code=204)


def _whole(db: Session, kept: PendingImport, records: Sequence[PaperRecord]) -> dict[str, Any]:
    return _brief(kept) | {"items": [_item(item) for item in importing.preview(db, records)]}


def _brief(kept: PendingImport) -> dict[str, Any]:
    return {
        "id": kept.id,
        "format": kept.format,
        "records": len(kept.records),
        "created_at": kept.created_at.isoformat(),
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "number": item.number,
        "new": item.is_new,
        "duplicate_of": item.paper.slug if item.paper else None,
        "by": item.by,
        "fills": list(item.gains),
        "repeats": item.repeats,
        "citations": item.citations,
        "record": to_dict(item.record),
    }
