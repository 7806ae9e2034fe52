"""Collections: one's own, and those that others share by link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Request
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio import web
from exactformer.studio.evidence import claims
from exactformer.studio.evidence.claims import Tally
from exactformer.studio.library.exports import Format, Wanted, as_file
from exactformer.studio.library.names import slugified
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import collections, quick
from exactformer.studio.opinions.collections import (
    MOST_ITEMS,
)
from exactformer.studio.opinions.tables import Collection
from exactformer.studio.opinions.views import renderer

router = APIRouter()

Token = Annotated[web.Clean, Path(max_length=64)]
Visibility = Literal["private", "link"]
SAVED = 100
"""Saved papers listed beside the collections."""


@router.get("/collections")
def read_all(read: web.Read) -> HTMLResponse:
    """One's collections and saved papers."""
    saved = read(quick.saved, SAVED)
    return read.render(
        "collections/list.html",
        collections=read(collections.own).items,
        saved=saved,
        tallies=_tallies(read.request, read.db, saved.items),
    )


@router.post("/collections")
def create(write: web.Write, title: web.Line = "", description: web.Line = "") -> Response:
    """Begin a collection."""
    collection = write(collections.create, title, description)
    return web.redirect(write.request, f"/collections/{collection.id}")


@router.get("/collections/{collection_id}")
def read_one(read: web.Read, collection_id: web.Identifier) -> HTMLResponse:
    """One of one's own collections."""
    return _page(read.request, read.db, read(collections.get, collection_id), owned=True)


@router.get("/c/{token}")
def read_shared(request: Request, db: web.ReadSession, token: Token) -> HTMLResponse:
    """A collection that somebody shares."""
    return _page(request, db, collections.shared(db, token), owned=False)


@router.get("/collections/{collection_id}/export")
def export(read: web.Read, collection_id: web.Identifier, format: Wanted = "json") -> Response:
    """The papers of one of one's own collections, in its order."""
    return _file(read.db, read(collections.get, collection_id), format)


@router.get("/c/{token}/export")
def export_shared(db: web.ReadSession, token: Token, format: Wanted = "json") -> Response:
    """The papers of the collection a link leads to."""
    return _file(db, collections.shared(db, token), format)


@router.post("/collections/{collection_id}")
def edit(
    write: web.Write,
    collection_id: web.Identifier,
    title: web.Line = "",
    description: web.Line = "",
) -> Response:
    """Change title and description."""
    write(collections.edit, collection_id, title=title, description=description)
    return web.redirect(write.request, f"/collections/{collection_id}")


@router.post("/collections/{collection_id}/sharing")
def share(
    write: web.Write, collection_id: web.Identifier, visibility: Annotated[Visibility, Form()]
) -> Response:
    """Share by link, or no longer."""
    write(collections.edit, collection_id, visibility=visibility)
    return web.redirect(write.request, f"/collections/{collection_id}#sharing")


@router.post("/collections/{collection_id}/link")
def renew_link(write: web.Write, collection_id: web.Identifier) -> Response:
    """Make a new link; the old one leads nowhere."""
    write(collections.renew_link, collection_id)
    return web.redirect(write.request, f"/collections/{collection_id}#sharing")


@router.post("/collections/{collection_id}/delete")
def remove(write: web.Write, collection_id: web.Identifier) -> Response:
    """Delete a collection."""
    write(collections.remove, collection_id)
    return web.redirect(write.request, "/collections")


@router.post("/collections/{collection_id}/items/{paper_id}/move")
def move(
    write: web.Write,
    collection_id: web.Identifier,
    paper_id: web.Identifier,
    position: Annotated[int, Form(ge=-1, le=MOST_ITEMS)],
) -> Response:
    """Move a paper up, down, or to where it was dragged."""
    write(collections.move, collection_id, paper_id, position)
    return _items(write, collection_id)


@router.post("/collections/{collection_id}/items/{paper_id}/note")
def annotate(
    write: web.Write,
    collection_id: web.Identifier,
    paper_id: web.Identifier,
    note: web.Line = "",
) -> Response:
    """Write the note beside a paper."""
    write(collections.annotate, collection_id, paper_id, note)
    return _items(write, collection_id)


@router.post("/collections/{collection_id}/items/{paper_id}/remove")
def take_out(write: web.Write, collection_id: web.Identifier, paper_id: web.Identifier) -> Response:
    """Take a paper out."""
    write(collections.take_out, collection_id, paper_id)
    return _items(write, collection_id)


def _items(write: web.Writer, collection_id: int) -> Response:
    """The list as it now stands; its notes are rendered when others may write again."""
    if not web.is_htmx(write.request):
        return web.redirect(write.request, f"/collections/{collection_id}")
    with web.database_of(write.request).session() as db:
        collection = collections.get(db, write.actor, collection_id)
        return _page(write.request, db, collection, owned=True, template="collections/_items.html")


def _page(
    request: Request,
    db: Session,
    collection: Collection,
    *,
    owned: bool,
    template: str = "collections/page.html",
) -> HTMLResponse:
    texts = [collection.description, *(item.note for item in collection.items)]
    return web.render(
        request,
        template,
        collection=collection,
        owned=owned,
        rendered=renderer(db, None, texts),
        tallies=_tallies(request, db, collections.papers(collection)),
        link=f"{request.url.scheme}://{request.url.netloc}/c/{collection.token}",
    )


def _tallies(request: Request, db: Session, listed: Iterable[Paper]) -> dict[int, Tally]:
    """What came of the claims of the papers in a list."""
    return claims.by_paper(db, web.settings_of(request).results, [paper.id for paper in listed])


def _file(db: Session, collection: Collection, format: Format) -> Response:
    name = slugified(collection.title) or "collection"
    return as_file(db, collections.papers(collection), format, name)
