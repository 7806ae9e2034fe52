"""Imports for curators: send a file or a text, look at what would happen, confirm or discard."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from starlette.responses import Response

from exactformer.studio.errors import StudioError
from exactformer.studio.library import importing
from exactformer.studio.library.importing import FORMATS
from exactformer.studio.library.importing.texts import MOST_BYTES, MOST_RECORDS
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.housekeeping import PendingImport
from exactformer.studio.web.request import (
    LARGEST,
    Clean,
    CurrentActor,
    Identifier,
    ReadSession,
    database_of,
    redirect,
    render,
    writing,
)

router = APIRouter(tags=["imports"], include_in_schema=False)

SHOWN = 500
EMPTY: dict[str, Any] = {
    "done": None,
    "error": "",
    "text": "",
    "problems": (),
    "pending": None,
    "count": 0,
}
"""What the form says when nothing has happened yet."""
Number = Annotated[int, Query(ge=0, le=LARGEST)]


@router.get("/imports")
def upload_form(
    request: Request,
    db: ReadSession,
    actor: CurrentActor,
    added: Number | None = None,
    filled: Number = 0,
    unchanged: Number = 0,
    citations: Number = 0,
) -> Response:
    """Show the form for a file, what still waits, and what the import just confirmed did."""
    done = None if added is None else (added, filled, unchanged, citations)
    known = _known(importing.waiting(db, actor))
    return render(request, "imports/upload.html", **(EMPTY | known | {"done": done}))


@router.post("/imports")
def upload(
    request: Request,
    actor: CurrentActor,
    file: Annotated[UploadFile | None, File()] = None,
    text: Annotated[Clean, Form()] = "",
) -> Response:
    """Read a file or a text and go on to the preview; what cannot be read is told on the form.

    Single records that are wrong are left out, and listed before the preview of the others.
    """
    actor.require("curator")
    problems: list[str] = []
    data = file.file.read() if file is not None and file.filename else text.encode()
    try:
        format, records = importing.read(data, problems)
    except StudioError as refusal:
        return _form(request, actor, status=refusal.status, error=str(refusal), text=text)
    with writing(request) as db:
        id = importing.propose(db, actor, format, records).id
    if not problems:
        return redirect(request, f"/imports/{id}")
    return _form(request, actor, problems=problems, pending=id, count=len(records))


def _form(request: Request, actor: Actor, status: int = 200, **context: Any) -> Response:
    """The form again, with what came of the last attempt."""
    with database_of(request).session() as db:
        known = _known(importing.waiting(db, actor))
    return render(request, "imports/upload.html", status=status, **(EMPTY | known | context))


@router.get("/imports/{id}")
def preview(request: Request, db: ReadSession, actor: CurrentActor, id: Identifier) -> Response:
    """Show what an import would do."""
    kept, records = importing.pending(db, actor, id)
    items = importing.preview(db, records)
    return render(
        request,
        "imports/preview.html",
        pending=kept,
        format=FORMATS[kept.format],
        items=items,
        shown=SHOWN,
        new=sum(item.is_new for item in items),
        filling=sum(bool(item.gains) for item in items),
        citations=sum(item.citations for item in items),
    )


@router.post("/imports/{id}/confirm")
def confirm(request: Request, actor: CurrentActor, id: Identifier) -> Response:
    """Write it and say what was done."""
    with writing(request) as db:
        outcome = importing.confirm(db, actor, id)
    numbers = {
        "added": len(outcome.added),
        "filled": len(outcome.filled),
        "unchanged": outcome.unchanged,
        "citations": outcome.citations,
    }
    return redirect(request, f"/imports?{urlencode(numbers)}")


@router.post("/imports/{id}/discard")
def discard(request: Request, actor: CurrentActor, id: Identifier) -> Response:
    """Forget it."""
    with writing(request) as db:
        importing.discard(db, actor, id)
    return redirect(request, "/imports")


def _known(waiting: list[PendingImport]) -> dict[str, Any]:
    return {
        "waiting": waiting,
        "formats": FORMATS,
        "most_bytes": MOST_BYTES,
        "most_records": MOST_RECORDS,
    }
