"""Imports: send a file, look at what would happen, confirm or discard; page beside JSON route."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio import web
from exactformer.studio.errors import NotFoundError, StudioError
from exactformer.studio.library import formats, imports
from exactformer.studio.library.formats import FORMATS
from exactformer.studio.library.formats.texts import MOST_BYTES, MOST_RECORDS
from exactformer.studio.library.records import PaperRecord
from exactformer.studio.library.tables import PendingImport

pages = APIRouter(tags=["imports"], include_in_schema=False)
api = APIRouter(prefix="/api/v1/imports", tags=["imports"])

SHOWN = 500
EMPTY: dict[str, Any] = {
    "done": None,
    "text": "",
    "problems": (),
    "pending": None,
    "count": 0,
    "formats": FORMATS,
    "most_bytes": MOST_BYTES,
    "most_records": MOST_RECORDS,
}
"""What the form says when nothing has happened yet."""
Number = Annotated[int, Query(ge=0, le=web.LARGEST)]


class ImportBriefOut(web.Out):
    """An import that waits."""

    id: int
    format: str
    records: web.LengthOf
    created_at: datetime


class ImportItemOut(web.Out):
    """A record of a file, and what importing it would do."""

    number: int
    new: Annotated[bool, Field(validation_alias="is_new")]
    duplicate_of: Annotated[web.SlugOf, Field(validation_alias="paper")]
    by: str
    fills: Annotated[list[str], Field(validation_alias="gains")]
    repeats: int | None
    citations: int
    record: PaperRecord


class ImportOut(ImportBriefOut):
    """An import that waits, record by record; ``left_out`` names records that cannot be read."""

    items: list[ImportItemOut]
    left_out: list[str]


class OutcomeOut(web.Out):
    """What an import has written."""

    added: list[str]
    filled: list[str]
    unchanged: int
    citations: int


@pages.get("/imports")
def upload_form(
    read: web.Read,
    added: Number | None = None,
    filled: Number = 0,
    unchanged: Number = 0,
    citations: Number = 0,
) -> Response:
    """Show the form for a file, what still waits, and what the import just confirmed did."""
    done = None if added is None else (added, filled, unchanged, citations)
    return _form(read.request, read(imports.waiting), done=done)


@api.get("")
def waiting(read: web.Read) -> web.Listing[ImportBriefOut]:
    """One's imports that are neither confirmed nor discarded."""
    found = read(imports.waiting)
    return web.listing(map(ImportBriefOut.model_validate, found), len(found))


@pages.post("/imports")
def upload(
    write: web.Write,
    file: Annotated[UploadFile | None, File()] = None,
    text: Annotated[web.Clean, Form()] = "",
) -> Response:
    """Read a file or a text and go on to the preview; what cannot be read is told on the form.

    Single records that are wrong are left out, and listed before the preview of the others.
    """
    write.actor.require("curator")
    data = file.file.read() if file is not None and file.filename else text.encode()
    problems: list[str] = []
    try:
        format, records = formats.read(data, problems)
    except StudioError as refusal:
        return _form_again(write, refusal, text=text)
    id = write(imports.propose, format, records).id
    if not problems:
        return web.redirect(write.request, f"/imports/{id}")
    return _form_again(write, problems=problems, pending=id, count=len(records))


@api.post("", status_code=201)
def send(write: web.Write, file: Annotated[UploadFile, File()]) -> ImportOut:
    """Send a file (BibTeX or an export); nothing is written.

    ``left_out`` says what is wrong with records that cannot be read.
    """
    write.actor.require("curator")
    problems: list[str] = []
    format, records = formats.read(file.file.read(), problems)
    kept = write(imports.propose, format, records)
    with web.database_of(write.request).session() as db:
        return _whole(db, kept, records, problems)


def _form_again(write: web.Writer, refusal: StudioError | None = None, **context: Any) -> Response:
    """The form with what came of the last attempt."""
    with web.database_of(write.request).session() as db:
        return _form(write.request, imports.waiting(db, write.actor), refusal, **context)


def _form(
    request: Request,
    waiting: list[PendingImport],
    refusal: StudioError | None = None,
    **context: Any,
) -> Response:
    known = EMPTY | {"waiting": waiting} | context
    return web.render_form(request, "imports/upload.html", refusal, **known)


@pages.get("/imports/{id}")
def preview(read: web.Read, id: web.Identifier) -> Response:
    """Show what an import would do; the way back to one that is over leads to the form."""
    try:
        kept, records = read(imports.pending, id)
    except NotFoundError as refusal:
        return _form(read.request, read(imports.waiting), refusal)
    items = imports.preview(read.db, records)
    return read.render(
        "imports/preview.html",
        pending=kept,
        format=FORMATS[kept.format],
        items=items,
        shown=SHOWN,
        new=sum(item.is_new for item in items),
        filling=sum(bool(item.gains) for item in items),
        citations=sum(item.citations for item in items),
    )


@api.get("/{id}", name="read")
def api_read(read: web.Read, id: web.Identifier) -> ImportOut:
    """What an import that waits would do now."""
    return _whole(read.db, *read(imports.pending, id))


@pages.post("/imports/{id}/confirm")
def confirm(write: web.Write, id: web.Identifier) -> Response:
    """Write it and say what was done."""
    try:
        outcome = write(imports.confirm, id)
    except NotFoundError as refusal:
        return _form_again(write, refusal)
    numbers = {
        "added": len(outcome.added),
        "filled": len(outcome.filled),
        "unchanged": outcome.unchanged,
        "citations": outcome.citations,
    }
    return web.redirect(write.request, f"/imports?{urlencode(numbers)}")


@api.post("/{id}/confirm")
def api_confirm(write: web.Write, id: web.Identifier) -> OutcomeOut:
    """Write it. What is there already is found out again, and only filled, never overwritten."""
    outcome = write(imports.confirm, id)
    return OutcomeOut(
        added=[paper.slug for paper in outcome.added],
        filled=[paper.slug for paper in outcome.filled],
        unchanged=outcome.unchanged,
        citations=outcome.citations,
    )


@pages.post("/imports/{id}/discard")
def discard(write: web.Write, id: web.Identifier) -> Response:
    """Forget it."""
    write(imports.discard, id)
    return web.redirect(write.request, "/imports")


@api.delete("/{id}", status_code=204)
def api_discard(write: web.Write, id: web.Identifier) -> None:
    """Forget it."""
    write(imports.discard, id)


def _whole(
    db: Session, kept: PendingImport, records: Sequence[PaperRecord], left_out: Sequence[str] = ()
) -> ImportOut:
    brief = ImportBriefOut.model_validate(kept).model_dump()
    items = list(map(ImportItemOut.model_validate, imports.preview(db, records)))
    return ImportOut.model_construct(**brief, items=items, left_out=list(left_out))


routers = (pages, api)
