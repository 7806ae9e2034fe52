"""Opinions as programs read them: made from views, never from the tables."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AliasPath, BeforeValidator, Field

from exactformer.studio.opinions.quick import Useful
from exactformer.studio.web.types import HandleOf, LengthOf, Out, SlugOf

State = Literal["open", "upheld", "dismissed"]


class TextOut(Out):
    """What all texts have; ``author`` is empty where the text may not be read."""

    id: int
    paper: str
    author: HandleOf
    state: str
    mine: bool
    revision: int
    created_at: datetime
    updated_at: datetime
    hidden_because: Annotated[str, Field(validation_alias="reason")]
    useful: Useful


class PartOut(Out):
    """A part of a review, as written and as shown."""

    text: str
    html: str


class ReviewOut(TextOut):
    """A review, with the parts that are not empty."""

    confidence: int
    parts: Annotated[
        dict[str, PartOut], BeforeValidator(lambda parts: {part.name: part for part in parts})
    ]


class CommentOut(TextOut):
    """A comment; of one that may not be read, only its place."""

    parent_id: int | None
    kind: str
    body: Annotated[str, Field(validation_alias="text")]
    html: str


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
    paper: SlugOf
    subject: Annotated[ReviewOut | CommentOut | None, Field(validation_alias="opinion")]
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
