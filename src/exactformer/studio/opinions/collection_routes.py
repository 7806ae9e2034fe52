"""Collections: one's own, and those that others share by link; pages, then the same for programs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.library import papers
from exactformer.studio.library.exporting import Format
from exactformer.studio.library.exporting.download import FILES, Wanted, as_file
from exactformer.studio.library.names import slugified
from exactformer.studio.opinions import collections, saves
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
    shared_collection,
)
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Collection
from exactformer.studio.web.request import (
    CurrentActor,
    ReadSession,
    database_of,
    is_htmx,
    redirect,
    render,
    writing,
)
from exactformer.studio.web.types import Body, Clean, FormBody, Identifier, Listing, Paging, listing

pages = APIRouter(include_in_schema=False)

Token = Annotated[Clean, Path(max_length=64)]
SAVED = 100
"""Saved papers listed beside the collections."""


class CollectionForm(FormBody):
    """Title and description; lengths are judged by the service."""

    title: Clean = ""
    description: Clean = ""


class SharingForm(FormBody):
    """Who may read."""

    visibility: Literal["private", "link"]


class NoteForm(FormBody):
    """What stands beside a paper."""

    note: Clean = ""


class MoveForm(FormBody):
    """A new place, from 0."""

    position: Annotated[int, Field(ge=-1, le=collections.MOST_ITEMS)]


@pages.get("/collections")
def read_all(request: Request, db: ReadSession, actor: CurrentActor) -> HTMLResponse:
    """One's collections and saved papers."""
    return render(
        request,
        "collections/list.html",
        collections=collections.own(db, actor).items,
        saved=saves.saved(db, actor, SAVED),
    )


@pages.post("/collections")
def create(
    request: Request, actor: CurrentActor, form: Annotated[CollectionForm, Form()]
) -> Response:
    """Begin a collection."""
    with writing(request) as db:
        collection = collections.create(db, actor, form.title, form.description)
    return redirect(request, f"/collections/{collection.id}")


@pages.get("/collections/{collection_id}")
def read(
    request: Request, db: ReadSession, actor: CurrentActor, collection_id: Identifier
) -> HTMLResponse:
    """One of one's own collections."""
    return _page(request, db, collections.get(db, actor, collection_id), owned=True)


@pages.get("/c/{token}")
def read_shared(request: Request, db: ReadSession, token: Token) -> HTMLResponse:
    """A collection that somebody shares."""
    return _page(request, db, collections.shared(db, token), owned=False)


@pages.post("/collections/{collection_id}")
def edit(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    form: Annotated[CollectionForm, Form()],
) -> Response:
    """Change title and description."""
    with writing(request) as db:
        collections.edit(db, actor, collection_id, title=form.title, description=form.description)
    return redirect(request, f"/collections/{collection_id}")


@pages.post("/collections/{collection_id}/sharing")
def share(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    form: Annotated[SharingForm, Form()],
) -> Response:
    """Share by link, or no longer."""
    with writing(request) as db:
        collections.edit(db, actor, collection_id, visibility=form.visibility)
    return redirect(request, f"/collections/{collection_id}#sharing")


@pages.post("/collections/{collection_id}/link")
def renew_link(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Make a new link; the old one leads nowhere."""
    with writing(request) as db:
        collections.renew_link(db, actor, collection_id)
    return redirect(request, f"/collections/{collection_id}#sharing")


@pages.post("/collections/{collection_id}/delete")
def remove(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Delete a collection."""
    with writing(request) as db:
        collections.remove(db, actor, collection_id)
    return redirect(request, "/collections")


@pages.post("/collections/{collection_id}/items/{paper_id}/move")
def move(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    paper_id: Identifier,
    form: Annotated[MoveForm, Form()],
) -> Response:
    """Move a paper up, down, or to where it was dragged."""
    with writing(request) as db:
        collections.move(db, actor, collection_id, paper_id, form.position)
    return _items(request, actor, collection_id)


@pages.post("/collections/{collection_id}/items/{paper_id}/note")
def annotate(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    paper_id: Identifier,
    form: Annotated[NoteForm, Form()],
) -> Response:
    """Write the note beside a paper."""
    with writing(request) as db:
        collections.annotate(db, actor, collection_id, paper_id, form.note)
    return _items(request, actor, collection_id)


@pages.post("/collections/{collection_id}/items/{paper_id}/remove")
def take_out(
    request: Request, actor: CurrentActor, collection_id: Identifier, paper_id: Identifier
) -> Response:
    """Take a paper out."""
    with writing(request) as db:
        collections.take_out(db, actor, collection_id, paper_id)
    return _items(request, actor, collection_id)


def _items(request: Request, actor: Actor, collection_id: int) -> Response:
    """The list as it now stands; its notes are rendered when others may write again."""
    if not is_htmx(request):
        return redirect(request, f"/collections/{collection_id}")
    with database_of(request).session() as db:
        collection = collections.get(db, actor, collection_id)
        return _page(request, db, collection, owned=True, template="collections/_items.html")


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


api = APIRouter(prefix="/api/v1", tags=["collections"])

Title = Annotated[Clean, Field(min_length=1, max_length=TITLE_LIMIT)]
Description = Annotated[Clean, Field(max_length=DESCRIPTION_LIMIT)]
Note = Annotated[Clean, Field(max_length=NOTE_LIMIT)]


class NewCollection(Body):
    """A collection; it begins private and empty."""

    title: Title
    description: Description = ""


class CollectionChanges(Body):
    """What is given is changed."""

    title: Title | None = None
    description: Description | None = None
    visibility: Literal["private", "link"] | None = None


class NewItem(Body):
    """A paper to put at the end."""

    slug: Annotated[Clean, Field(max_length=120)]
    note: Note = ""


class ItemChanges(Body):
    """A paper's place (from 0) and note; what is given is changed."""

    position: Annotated[int, Field(ge=0, le=MOST_ITEMS)] | None = None
    note: Note | None = None


@api.get("/collections")
def api_read_all(
    db: ReadSession, actor: CurrentActor, paging: Paging
) -> Listing[CollectionBriefOut]:
    """One's own collections, the last changed first."""
    found = collections.own(db, actor, paging.limit, paging.offset)
    items = [
        CollectionBriefOut(
            id=each.id,
            title=each.title,
            visibility=each.visibility,
            papers=len(each.items),
            updated_at=each.updated_at,
        )
        for each in found.items
    ]
    return listing(items, found.total)


@api.post("/collections", status_code=201)
def api_create(request: Request, actor: CurrentActor, collection: NewCollection) -> CollectionOut:
    """Begin a collection."""
    with writing(request) as db:
        made = collections.create(db, actor, collection.title, collection.description)
        return CollectionOut.of(made)


@api.get("/collections/{collection_id}")
def api_read(db: ReadSession, actor: CurrentActor, collection_id: Identifier) -> CollectionOut:
    """One of one's own collections."""
    return CollectionOut.of(collections.get(db, actor, collection_id))


@api.get("/shared/{token}")
def api_read_shared(db: ReadSession, token: Token) -> SharedCollectionOut:
    """The collection a link leads to."""
    return shared_collection(collections.shared(db, token))


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


@api.patch("/collections/{collection_id}")
def api_edit(
    request: Request, actor: CurrentActor, collection_id: Identifier, changes: CollectionChanges
) -> CollectionOut:
    """Change title, description or who may read."""
    with writing(request) as db:
        edited = collections.edit(db, actor, collection_id, **changes.model_dump())
        return CollectionOut.of(edited)


@api.delete("/collections/{collection_id}", status_code=204)
def api_remove(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Delete a collection."""
    with writing(request) as db:
        collections.remove(db, actor, collection_id)
    return Response(status_code=204)


@api.post("/collections/{collection_id}/link")
def api_renew_link(
    request: Request, actor: CurrentActor, collection_id: Identifier
) -> CollectionOut:
    """Make a new link; the old one leads nowhere."""
    with writing(request) as db:
        return CollectionOut.of(collections.renew_link(db, actor, collection_id))


@api.post("/collections/{collection_id}/items", status_code=201)
def add(
    request: Request, actor: CurrentActor, collection_id: Identifier, item: NewItem
) -> CollectionOut:
    """Put a paper into a collection."""
    with writing(request) as db:
        paper = papers.get(db, item.slug)
        changed = collections.add(db, actor, collection_id, paper, item.note)
        return CollectionOut.of(changed)


@api.patch("/collections/{collection_id}/items/{paper_id}")
def change_item(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    paper_id: Identifier,
    changes: ItemChanges,
) -> CollectionOut:
    """Move a paper within a collection, or change its note."""
    with writing(request) as db:
        collection = collections.get(db, actor, collection_id)
        if changes.note is not None:
            collections.annotate(db, actor, collection_id, paper_id, changes.note)
        if changes.position is not None:
            collections.move(db, actor, collection_id, paper_id, changes.position)
        return CollectionOut.of(collection)


@api.delete("/collections/{collection_id}/items/{paper_id}")
def api_take_out(
    request: Request, actor: CurrentActor, collection_id: Identifier, paper_id: Identifier
) -> CollectionOut:
    """Take a paper out of a collection."""
    with writing(request) as db:
        changed = collections.take_out(db, actor, collection_id, paper_id)
        return CollectionOut.of(changed)


def _file(db: Session, collection: Collection, format: Format) -> Response:
    name = slugified(collection.title) or "collection"
    return as_file(db, collections.papers(collection), format, name)


routers = (pages, api)
