"""Opinions as programs read them: made from views, never from the tables."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, Field

from exactformer.studio.opinions.views import CommentView, ReviewView, Standing
from exactformer.studio.web.types import LengthOf, Out

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


class CaseOut(Out):
    """What was reported, with every report on it; a deleted text is not shown."""

    kind: str
    paper: str
    subject: ReviewOut | CommentOut | None
    flags: list[FlagOut]


class ItemOut(Out):
    """A paper in a collection."""

    paper_id: int
    slug: Annotated[str, Field(validation_alias=AliasPath("paper", "slug"))]
    title: Annotated[str, Field(validation_alias=AliasPath("paper", "title"))]
    note: str


class SharedCollectionOut(Out):
    """A collection as everybody reads it who has its link."""

    title: str
    description: str
    owner: Annotated[str, Field(validation_alias=AliasPath("owner", "name"))]
    updated_at: datetime
    items: list[ItemOut]


class CollectionOut(SharedCollectionOut):
    """A collection as its owner reads it; ``token`` is part of its link, if it has one."""

    id: int
    visibility: str
    token: Annotated[str | None, Field(validation_alias="shared_token")] = None


class CollectionBriefOut(Out):
    """A collection in a list."""

    id: int
    title: str
    visibility: str
    papers: Annotated[LengthOf, Field(validation_alias="items")]
    updated_at: datetime


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
