"""Collections for programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.library import papers
from exactformer.studio.library.export_api import FILES, Wanted, as_file
from exactformer.studio.library.exporting import Format
from exactformer.studio.library.naming import slugified
from exactformer.studio.opinions import collections, descriptions
from exactformer.studio.opinions.collections import (
    DESCRIPTION_LIMIT,
    MOST_ITEMS,
    NOTE_LIMIT,
    TITLE_LIMIT,
)
from exactformer.studio.storage.tables import Collection
from exactformer.studio.web.request import (
    Body,
    Clean,
    CurrentActor,
    Identifier,
    Paging,
    ReadSession,
    listing,
    writing,
)

router = APIRouter(prefix="/api/v1", tags=["collections"])

Title = Annotated[Clean, Field(min_length=1, max_length=TITLE_LIMIT)]
Description = Annotated[Clean, Field(max_length=DESCRIPTION_LIMIT)]
Note = Annotated[Clean, Field(max_length=NOTE_LIMIT)]
Token = Annotated[Clean, Path(max_length=64)]


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


@router.get("/collections")
def read_all(db: ReadSession, actor: CurrentActor, paging: Paging) -> dict[str, Any]:
    """One's own collections, the last changed first."""
    found = collections.own(db, actor, paging.limit, paging.offset)
    items = [
        {"id": each.id, "title": each.title, "visibility": each.visibility}
        | {"papers": len(each.items), "updated_at": each.updated_at.isoformat()}
        for each in found.items
    ]
    return listing(items, found.total)


@router.post("/collections", status_code=201)
def create(request: Request, actor: CurrentActor, collection: NewCollection) -> dict[str, Any]:
    """Begin a collection."""
    with writing(request) as db:
        made = collections.create(db, actor, collection.title, collection.description)
        return descriptions.collection(made, owned=True)


@router.get("/collections/{collection_id}")
def read(db: ReadSession, actor: CurrentActor, collection_id: Identifier) -> dict[str, Any]:
    """One of one's own collections."""
    return descriptions.collection(collections.get(db, actor, collection_id), owned=True)


@router.get("/shared/{token}")
def read_shared(db: ReadSession, token: Token) -> dict[str, Any]:
    """The collection a link leads to."""
    return descriptions.collection(collections.shared(db, token), owned=False)


@router.get("/collections/{collection_id}/export", response_class=Response, responses=FILES)
def export(
    db: ReadSession, actor: CurrentActor, collection_id: Identifier, format: Wanted = "json"
) -> Response:
    """The papers of one of one's own collections, in its order."""
    return _file(db, collections.get(db, actor, collection_id), format)


@router.get("/shared/{token}/export", response_class=Response, responses=FILES)
def export_shared(db: ReadSession, token: Token, format: Wanted = "json") -> Response:
    """The papers of the collection a link leads to."""
    return _file(db, collections.shared(db, token), format)


@router.patch("/collections/{collection_id}")
def edit(
    request: Request, actor: CurrentActor, collection_id: Identifier, changes: CollectionChanges
) -> dict[str, Any]:
    """Change title, description or who may read."""
    with writing(request) as db:
        edited = collections.edit(db, actor, collection_id, **changes.model_dump())
        return descriptions.collection(edited, owned=True)


@router.delete("/collections/{collection_id}", status_code=204)
def remove(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Delete a collection."""
    with writing(request) as db:
        collections.remove(db, actor, collection_id)
    return Response(status_code=204)


@router.post("/collections/{collection_id}/link")
def renew_link(request: Request, actor: CurrentActor, collection_id: Identifier) -> dict[str, Any]:
    """Make a new link; the old one leads nowhere."""
    with writing(request) as db:
        return descriptions.collection(collections.renew_link(db, actor, collection_id), owned=True)


@router.post("/collections/{collection_id}/items", status_code=201)
def add(
    request: Request, actor: CurrentActor, collection_id: Identifier, item: NewItem
) -> dict[str, Any]:
    """Put a paper into a collection."""
    with writing(request) as db:
        paper = papers.get(db, item.slug)
        changed = collections.add(db, actor, collection_id, paper, item.note)
        return descriptions.collection(changed, owned=True)


@router.patch("/collections/{collection_id}/items/{paper_id}")
def change_item(
    request: Request,
    actor: CurrentActor,
    collection_id: Identifier,
    paper_id: Identifier,
    changes: ItemChanges,
) -> dict[str, Any]:
    """Move a paper within a collection, or change its note."""
    with writing(request) as db:
        collection = collections.get(db, actor, collection_id)
        if changes.note is not None:
            collections.annotate(db, actor, collection_id, paper_id, changes.note)
        if changes.position is not None:
            collections.move(db, actor, collection_id, paper_id, changes.position)
        return descriptions.collection(collection, owned=True)


@router.delete("/collections/{collection_id}/items/{paper_id}")
def take_out(
    request: Request, actor: CurrentActor, collection_id: Identifier, paper_id: Identifier
) -> dict[str, Any]:
    """Take a paper out of a collection."""
    with writing(request) as db:
        changed = collections.take_out(db, actor, collection_id, paper_id)
        return descriptions.collection(changed, owned=True)


def _file(db: Session, collection: Collection, format: Format) -> Response:
    name = slugified(collection.title) or "collection"
    return as_file(db, collections.papers(collection), format, name)
