"""Collections: one's own, and those that others share by link; each page beside its JSON route."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.library.exporting import Format
from exactformer.studio.library.exporting.download import FILES, Wanted, as_file
from exactformer.studio.library.names import slugified
from exactformer.studio.opinions import collections, quick
from exactformer.studio.opinions.collections import (
    DESCRIPTION_LIMIT,
    MOST_ITEMS,
    NOTE_LIMIT,
    TITLE_LIMIT,
)
from exactformer.studio.opinions.models import (
    CollectionBriefOut,
    CollectionOut,
    SharedCollectionOut,
)
from exactformer.studio.opinions.tables import Collection
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    Write,
    Writer,
    database_of,
    is_htmx,
    redirect,
    render,
)
from exactformer.studio.web.types import (
    Body,
    Clean,
    FormBody,
    Identifier,
    Listing,
    Paging,
    Sent,
    listing,
)

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/api/v1", tags=["collections"])

Token = Annotated[Clean, Path(max_length=64)]
Title = Annotated[Clean, Field(min_length=1, max_length=TITLE_LIMIT)]
Description = Annotated[Clean, Field(max_length=DESCRIPTION_LIMIT)]
Note = Annotated[Clean, Field(max_length=NOTE_LIMIT)]
Visibility = Literal["private", "link"]
SAVED = 100
"""Saved papers listed beside the collections."""


class CollectionForm(FormBody):
    """Title and description; lengths are judged by the service."""

    title: Clean = ""
    description: Clean = ""


class SharingForm(FormBody):
    """Who may read."""

    visibility: Visibility


class NoteForm(FormBody):
    """What stands beside a paper."""

    note: Clean = ""


class MoveForm(FormBody):
    """A new place, from 0."""

    position: Annotated[int, Field(ge=-1, le=MOST_ITEMS)]


class NewCollection(Body):
    """A collection; it begins private and empty."""

    title: Title
    description: Description = ""


class CollectionChanges(Body):
    """What is given is changed."""

    title: Title | None = None
    description: Description | None = None
    visibility: Visibility | None = None


class NewItem(Body):
    """A paper to put at the end."""

    slug: Annotated[Clean, Field(max_length=120)]
    note: Note = ""


class ItemChanges(Body):
    """A paper's place (from 0) and note; what is given is changed."""

    position: Annotated[int, Field(ge=0, le=MOST_ITEMS)] | None = None
    note: Note | None = None


@pages.get("/collections")
def read_all(request: Request, db: ReadSession, actor: CurrentActor) -> HTMLResponse:
    """One's collections and saved papers."""
    return render(
        request,
        "collections/list.html",
        collections=collections.own(db, actor).items,
        saved=quick.saved(db, actor, SAVED),
    )


@api.get("/collections")
def api_read_all(
    db: ReadSession, actor: CurrentActor, paging: Paging
) -> Listing[CollectionBriefOut]:
    """One's own collections, the last changed first."""
    found = collections.own(db, actor, paging.limit, paging.offset)
    return listing(map(CollectionBriefOut.model_validate, found.items), found.total)


@pages.post("/collections")
def create(write: Write, form: Sent[CollectionForm]) -> Response:
    """Begin a collection."""
    collection = write(collections.create, form.title, form.description)
    return redirect(write.request, f"/collections/{collection.id}")


@api.post("/collections", status_code=201)
def api_create(write: Write, collection: NewCollection) -> CollectionOut:
    """Begin a collection."""
    made = write(collections.create, collection.title, collection.description)
    return CollectionOut.model_validate(made)


@pages.get("/collections/{collection_id}")
def read(
    request: Request, db: ReadSession, actor: CurrentActor, collection_id: Identifier
) -> HTMLResponse:
    """One of one's own collections."""
    return _page(request, db, collections.get(db, actor, collection_id), owned=True)


@api.get("/collections/{collection_id}")
def api_read(db: ReadSession, actor: CurrentActor, collection_id: Identifier) -> CollectionOut:
    """One of one's own collections."""
    return CollectionOut.model_validate(collections.get(db, actor, collection_id))


@pages.get("/c/{token}")
def read_shared(request: Request, db: ReadSession, token: Token) -> HTMLResponse:
    """A collection that somebody shares."""
    return _page(request, db, collections.shared(db, token), owned=False)


@api.get("/shared/{token}")
def api_read_shared(db: ReadSession, token: Token) -> SharedCollectionOut:
    """The collection a link leads to."""
    return SharedCollectionOut.model_validate(collections.shared(db, token))


@api.get("/collections/{collection_id}/export", response_class=Response, responses=FILES)
def export(
    db: ReadSession, actor: CurrentActor, collection_id: Identifier, format: Wanted = "json"
) -> Response:
    """The papers of one of one's own collections, in its order."""
    return _file(db, collections.get(db, actor, collection_id), format)


@api.get("/shared/{token}/export", response_class=Response, responses=FILES)
def export_shared(db: ReadSession, token: Token, format: Wanted = "json") -> Response:
    """The papers of the collection a link leads to."""
    return _file(db, collections.shared(db, token), format)


@pages.post("/collections/{collection_id}")
def edit(write: Write, collection_id: Identifier, form: Sent[CollectionForm]) -> Response:
    """Change title and description."""
    write(collections.edit, collection_id, title=form.title, description=form.description)
    return redirect(write.request, f"/collections/{collection_id}")


@pages.post("/collections/{collection_id}/sharing")
def share(write: Write, collection_id: Identifier, form: Sent[SharingForm]) -> Response:
    """Share by link, or no longer."""
    write(collections.edit, collection_id, visibility=form.visibility)
    return redirect(write.request, f"/collections/{collection_id}#sharing")


@api.patch("/collections/{collection_id}")
def api_edit(write: Write, collection_id: Identifier, changes: CollectionChanges) -> CollectionOut:
    """Change title, description or who may read."""
    return CollectionOut.model_validate(
        write(collections.edit, collection_id, **changes.model_dump())
    )


@pages.post("/collections/{collection_id}/link")
def renew_link(write: Write, collection_id: Identifier) -> Response:
    """Make a new link; the old one leads nowhere."""
    write(collections.renew_link, collection_id)
    return redirect(write.request, f"/collections/{collection_id}#sharing")


@api.post("/collections/{collection_id}/link")
def api_renew_link(write: Write, collection_id: Identifier) -> CollectionOut:
    """Make a new link; the old one leads nowhere."""
    return CollectionOut.model_validate(write(collections.renew_link, collection_id))


@pages.post("/collections/{collection_id}/delete")
def remove(write: Write, collection_id: Identifier) -> Response:
    """Delete a collection."""
    write(collections.remove, collection_id)
    return redirect(write.request, "/collections")


@api.delete("/collections/{collection_id}", status_code=204)
def api_remove(write: Write, collection_id: Identifier) -> None:
    """Delete a collection."""
    write(collections.remove, collection_id)


@api.post("/collections/{collection_id}/items", status_code=201)
def add(write: Write, collection_id: Identifier, item: NewItem) -> CollectionOut:
    """Put a paper into a collection."""

    def put(db: Session, actor: Actor) -> Collection:
        return collections.add(db, actor, collection_id, papers.get(db, item.slug), item.note)

    return CollectionOut.model_validate(write(put))


@pages.post("/collections/{collection_id}/items/{paper_id}/move")
def move(
    write: Write,
    collection_id: Identifier,
    paper_id: Identifier,
    form: Sent[MoveForm],
) -> Response:
    """Move a paper up, down, or to where it was dragged."""
    write(collections.move, collection_id, paper_id, form.position)
    return _items(write, collection_id)


@pages.post("/collections/{collection_id}/items/{paper_id}/note")
def annotate(
    write: Write,
    collection_id: Identifier,
    paper_id: Identifier,
    form: Sent[NoteForm],
) -> Response:
    """Write the note beside a paper."""
    write(collections.annotate, collection_id, paper_id, form.note)
    return _items(write, collection_id)


@api.patch("/collections/{collection_id}/items/{paper_id}")
def change_item(
    write: Write, collection_id: Identifier, paper_id: Identifier, changes: ItemChanges
) -> CollectionOut:
    """Move a paper within a collection, or change its note."""

    def change(db: Session, actor: Actor) -> Collection:
        if changes.note is not None:
            collections.annotate(db, actor, collection_id, paper_id, changes.note)
        if changes.position is not None:
            collections.move(db, actor, collection_id, paper_id, changes.position)
        return collections.get(db, actor, collection_id)

    return CollectionOut.model_validate(write(change))


@pages.post("/collections/{collection_id}/items/{paper_id}/remove")
def take_out(write: Write, collection_id: Identifier, paper_id: Identifier) -> Response:
    """Take a paper out."""
    write(collections.take_out, collection_id, paper_id)
    return _items(write, collection_id)


@api.delete("/collections/{collection_id}/items/{paper_id}")
def api_take_out(write: Write, collection_id: Identifier, paper_id: Identifier) -> CollectionOut:
    """Take a paper out of a collection."""
    return CollectionOut.model_validate(write(collections.take_out, collection_id, paper_id))


def _items(write: Writer, collection_id: int) -> Response:
    """The list as it now stands; its notes are rendered when others may write again."""
    if not is_htmx(write.request):
        return redirect(write.request, f"/collections/{collection_id}")
    with database_of(write.request).session() as db:
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
    return render(
        request,
        template,
        collection=collection,
        owned=owned,
        rendered=renderer(db, None, texts),
        link=f"{request.url.scheme}://{request.url.netloc}/c/{collection.token}",
    )


def _file(db: Session, collection: Collection, format: Format) -> Response:
    name = slugified(collection.title) or "collection"
    return as_file(db, collections.papers(collection), format, name)


routers = (pages, api)
