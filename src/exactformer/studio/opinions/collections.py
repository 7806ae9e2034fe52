"""Collections: papers in an order, with notes; private, or open to whoever has the link.

The link holds a token that cannot be guessed. A new one withdraws the old link, and so does making
the collection private.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.sql.base import ExecutableOption

from exactformer.studio.errors import ConflictError, InvalidError, NotFoundError, TooLargeError
from exactformer.studio.library.tables import Authorship, Paper
from exactformer.studio.opinions.tables import Collection, CollectionItem
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import Slice, cut
from exactformer.studio.web.markup import bounded, prose

TITLE_LIMIT = 200
DESCRIPTION_LIMIT = 2_000
NOTE_LIMIT = 2_000
MOST_ITEMS = 1_000
MOST_COLLECTIONS = 200
VISIBILITIES = ("private", "link")


def create(db: Session, actor: Actor, title: str, description: str = "") -> Collection:
    """Begin a collection; it is private."""
    owner_id = actor.require("reader")
    own = select(func.count()).select_from(Collection).where(Collection.owner_id == owner_id)
    if (db.scalar(own) or 0) >= MOST_COLLECTIONS:
        raise TooLargeError(f"{MOST_COLLECTIONS} collections are the limit; delete one first")
    collection = Collection(
        owner_id=owner_id,
        title=bounded("the title", title, TITLE_LIMIT, required=True),
        description=prose("the description", description, DESCRIPTION_LIMIT),
        token=_new_token(),
        items=[],
    )
    db.add(collection)
    db.flush()
    db.refresh(collection, ["owner"])
    audit.record(db, actor, "collection.create", "collection", collection.id, {})
    return collection


def edit(
    db: Session,
    actor: Actor,
    collection_id: int,
    *,
    title: str | None = None,
    description: str | None = None,
    visibility: str | None = None,
) -> Collection:
    """Change what is given."""
    collection = get(db, actor, collection_id)
    if title is not None:
        collection.title = bounded("the title", title, TITLE_LIMIT, required=True)
    if description is not None:
        collection.description = prose("the description", description, DESCRIPTION_LIMIT)
    if visibility is not None and visibility not in VISIBILITIES:
        raise InvalidError(f"a collection is {' or '.join(VISIBILITIES)}, not {visibility!r}")
    if visibility == "private" and collection.visibility == "link":
        collection.token = _new_token()
    collection.visibility = visibility or collection.visibility
    detail = {"visibility": collection.visibility}
    audit.record(db, actor, "collection.edit", "collection", collection.id, detail)
    db.flush()
    return collection


def renew_link(db: Session, actor: Actor, collection_id: int) -> Collection:
    """Give the collection a new link; the old one leads nowhere."""
    collection = get(db, actor, collection_id)
    collection.token = _new_token()
    audit.record(db, actor, "collection.renew-link", "collection", collection.id, {})
    db.flush()
    return collection


def remove(db: Session, actor: Actor, collection_id: int) -> None:
    """Delete a collection; the papers stay in the library."""
    collection = get(db, actor, collection_id)
    audit.record(db, actor, "collection.delete", "collection", collection.id, {})
    db.delete(collection)
    db.flush()


def get(db: Session, actor: Actor, collection_id: int) -> Collection:
    """Return one of the actor's collections; others' are as if they were not there."""
    owner_id = actor.require("reader")
    statement = select(Collection).where(
        Collection.id == collection_id, Collection.owner_id == owner_id
    )
    return _found(db.scalar(statement.options(*_everything())))


def shared(db: Session, token: str) -> Collection:
    """Return the collection a link leads to."""
    statement = select(Collection).where(Collection.token == token, Collection.visibility == "link")
    return _found(db.scalar(statement.options(*_everything())))


def own(
    db: Session, actor: Actor, limit: int = MOST_COLLECTIONS, offset: int = 0
) -> Slice[Collection]:
    """Return the actor's collections, the last changed first."""
    owner_id = actor.require("reader")
    statement = select(Collection).where(Collection.owner_id == owner_id)
    statement = statement.order_by(Collection.updated_at.desc(), Collection.id.desc())
    return cut(db, statement, limit, offset, selectinload(Collection.items))


def papers(collection: Collection) -> list[Paper]:
    """Return the papers of a collection in its order."""
    return [item.paper for item in collection.items]


def add(db: Session, actor: Actor, collection_id: int, paper: Paper, note: str = "") -> Collection:
    """Put ``paper`` at the end of a collection."""
    collection = get(db, actor, collection_id)
    if any(item.paper_id == paper.id for item in collection.items):
        raise ConflictError("the paper is in this collection already")
    if len(collection.items) >= MOST_ITEMS:
        raise TooLargeError(f"a collection holds at most {MOST_ITEMS:,} papers; begin another")
    item = CollectionItem(
        paper=paper,
        position=len(collection.items),
        note=prose("the note", note, NOTE_LIMIT),
    )
    collection.items.append(item)
    _changed(db, actor, collection, "collection.add")
    return collection


def take_out(db: Session, actor: Actor, collection_id: int, paper_id: int) -> Collection:
    """Take a paper out of a collection."""
    collection = get(db, actor, collection_id)
    collection.items.remove(_item(collection, paper_id))
    _number(collection.items)
    _changed(db, actor, collection, "collection.take-out")
    return collection


def annotate(db: Session, actor: Actor, collection_id: int, paper_id: int, note: str) -> Collection:
    """Write the note that stands beside a paper."""
    collection = get(db, actor, collection_id)
    _item(collection, paper_id).note = prose("the note", note, NOTE_LIMIT)
    _changed(db, actor, collection, "collection.annotate")
    return collection


def move(db: Session, actor: Actor, collection_id: int, paper_id: int, position: int) -> Collection:
    """Move a paper to ``position`` (from 0); past either end means the end."""
    collection = get(db, actor, collection_id)
    item = _item(collection, paper_id)
    order = [other for other in collection.items if other is not item]
    order.insert(max(0, min(position, len(order))), item)
    _number(order)
    collection.items.sort(key=lambda other: other.position)
    _changed(db, actor, collection, "collection.move")
    return collection


def _changed(db: Session, actor: Actor, collection: Collection, action: str) -> None:
    """Log that a collection has changed, not what is in it: that is its owner's alone."""
    collection.updated_at = now()
    audit.record(db, actor, action, "collection", collection.id, {})
    db.flush()


def _item(collection: Collection, paper_id: int) -> CollectionItem:
    for item in collection.items:
        if item.paper_id == paper_id:
            return item
    raise NotFoundError("this paper is not in the collection")


def _number(items: Sequence[CollectionItem]) -> None:
    for position, item in enumerate(items):
        item.position = position


def _found(collection: Collection | None) -> Collection:
    if collection is None:
        raise NotFoundError("there is no such collection, or it is not open to you")
    return collection


def _everything() -> tuple[ExecutableOption, ...]:
    item = selectinload(Collection.items).joinedload(CollectionItem.paper)
    return selectinload(Collection.owner), item.selectinload(Paper.authorships).joinedload(
        Authorship.person
    )


def _new_token() -> str:
    return secrets.token_urlsafe(32)
