"""Collections: one's own shelves, and those that others share by link."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from exactformer.studio.opinions import collections, saves
from exactformer.studio.opinions.views import renderer
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Collection
from exactformer.studio.web.request import (
    Clean,
    CurrentActor,
    FormBody,
    Identifier,
    ReadSession,
    database_of,
    is_htmx,
    redirect,
    render,
    writing,
)

router = APIRouter(include_in_schema=False)

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


@router.get("/collections")
def read_all(request: Request, db: ReadSession, actor: CurrentActor) -> HTMLResponse:
    """One's collections and saved papers."""
    return render(
        request,
        "collections/list.html",
        collections=collections.own(db, actor).items,
        saved=saves.saved(db, actor, SAVED),
    )


@router.post("/collections")
def create(
    request: Request, actor: CurrentActor, form: Annotated[CollectionForm, Form()]
) -> Response:
    """Begin a collection."""
    with writing(request) as db:
        collection = collections.create(db, actor, form.title, form.description)
    return redirect(request, f"/collections/{collection.id}")


@router.get("/collections/{collection_id}")
def read(
    request: Request, db: ReadSession, actor: CurrentActor, collection_id: Identifier
) -> HTMLResponse:
    """One of one's own collections."""
    return _page(request, db, collections.get(db, actor, collection_id), owned=True)


@router.get("/c/{token}")
def read_shared(request: Request, db: ReadSession, token: Token) -> HTMLResponse:
    """A collection that somebody shares."""
    return _page(request, db, collections.shared(db, token), owned=False)


@router.post("/collections/{collection_id}")
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


@router.post("/collections/{collection_id}/sharing")
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


@router.post("/collections/{collection_id}/link")
def renew_link(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Make a new link; the old one leads nowhere."""
    with writing(request) as db:
        collections.renew_link(db, actor, collection_id)
    return redirect(request, f"/collections/{collection_id}#sharing")


@router.post("/collections/{collection_id}/delete")
def remove(request: Request, actor: CurrentActor, collection_id: Identifier) -> Response:
    """Delete a collection."""
    with writing(request) as db:
        collections.remove(db, actor, collection_id)
    return redirect(request, "/collections")


@router.post("/collections/{collection_id}/items/{paper_id}/move")
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


@router.post("/collections/{collection_id}/items/{paper_id}/note")
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


@router.post("/collections/{collection_id}/items/{paper_id}/remove")
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
