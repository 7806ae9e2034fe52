"""Opinions as programs read them: made from views, never from the tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from exactformer.studio.opinions.views import CommentView, ReviewView, Standing
from exactformer.studio.storage.tables import Collection, Flag
from exactformer.studio.web.types import Out

State = Literal["open", "upheld", "dismissed"]


class TextOut(Out):
    """What all texts have; ``author`` is empty where the text may not be read."""

    id: int
    paper: str
    author: str | None
    state: str
    mine: bool
    revision: int
    created_at: datetime
    updated_at: datetime
    hidden_because: str


class PartOut(Out):
    """A part of a review, as written and as shown."""

    text: str
    html: str


class ReviewOut(TextOut):
    """A review, with the parts that are not empty."""

    confidence: int
    parts: dict[str, PartOut]

    @classmethod
    def of(cls, view: ReviewView, paper: str) -> ReviewOut:
        """Describe a review of ``paper``."""
        parts = {part.name: PartOut(text=part.text, html=str(part.html)) for part in view.parts}
        return cls(**_standing(view, paper), confidence=view.confidence, parts=parts)


class CommentOut(TextOut):
    """A comment; of one that may not be read, only its place."""

    parent_id: int | None
    kind: str
    body: str
    html: str

    @classmethod
    def of(cls, view: CommentView, paper: str) -> CommentOut:
        """Describe a comment on ``paper``."""
        return cls(
            **_standing(view, paper),
            parent_id=view.parent_id,
            kind=view.kind,
            body=view.text,
            html=str(view.html),
        )


class VersionOut(Out):
    """A state that a text had."""

    revision: int
    written_at: datetime


class ReviewVersionOut(VersionOut):
    """A state that a review had."""

    summary: str
    strengths: str
    concerns: str
    questions: str
    conflict: str
    confidence: int


class CommentVersionOut(VersionOut):
    """A state that a comment had."""

    body: str
    kind: str


class FlagOut(Out):
    """A report."""

    id: int
    subject_kind: str
    subject_id: int
    reason: str
    state: State
    note: str
    created_at: datetime
    decided_at: datetime | None

    @classmethod
    def of(cls, flag: Flag) -> FlagOut:
        """Describe a report."""
        return cls.model_validate(flag)


class CaseOut(Out):
    """What was reported, with every report on it; a deleted text is not shown."""

    kind: str
    paper: str
    subject: ReviewOut | CommentOut | None
    flags: list[FlagOut]


class ItemOut(Out):
    """A paper in a collection."""

    paper_id: int
    slug: str
    title: str
    note: str


class SharedCollectionOut(Out):
    """A collection as everybody reads it who has its link."""

    title: str
    description: str
    owner: str
    updated_at: datetime
    items: list[ItemOut]


class CollectionOut(SharedCollectionOut):
    """A collection as its owner reads it; ``token`` is part of its link, if it has one."""

    id: int
    visibility: str
    token: str | None = None

    @classmethod
    def of(cls, collection: Collection) -> CollectionOut:
        """Describe a collection to its owner."""
        token = collection.token if collection.visibility == "link" else None
        return cls(
            **shared_collection(collection).model_dump(),
            id=collection.id,
            visibility=collection.visibility,
            token=token,
        )


def shared_collection(collection: Collection) -> SharedCollectionOut:
    """Describe a collection without its link."""
    items = [
        ItemOut(paper_id=item.paper_id, slug=paper.slug, title=paper.title, note=item.note)
        for item in collection.items
        for paper in (item.paper,)
    ]
    return SharedCollectionOut(
        title=collection.title,
        description=collection.description,
        owner=collection.owner.name,
        updated_at=collection.updated_at,
        items=items,
    )


class CollectionBriefOut(Out):
    """A collection in a list."""

    id: int
    title: str
    visibility: str
    papers: int
    updated_at: datetime

    @classmethod
    def of(cls, collection: Collection) -> CollectionBriefOut:
        """Describe a collection in a line."""
        return cls(
            id=collection.id,
            title=collection.title,
            visibility=collection.visibility,
            papers=len(collection.items),
            updated_at=collection.updated_at,
        )


def _standing(view: Standing, paper: str) -> dict[str, Any]:
    return {
        "id": view.id,
        "paper": paper,
        "author": view.author.handle if view.author else None,
        "state": view.state,
        "mine": view.mine,
        "revision": view.revision,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
        "hidden_because": view.reason,
    }
