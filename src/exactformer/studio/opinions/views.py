"""Reviews and comments as a reader sees them: rendered, and without what she may not see.

Pages are made from these, never from the tables, so that the text of something
hidden or deleted has one place only where it could leak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import User
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.opinions.quick import Useful, useful
from exactformer.studio.opinions.tables import (
    REVIEW_PARTS,
    Comment,
    CommentMark,
    Flag,
    Review,
    ReviewMark,
)
from exactformer.studio.opinions.texts import Opinion, may_read
from exactformer.studio.security.actor import Actor
from exactformer.studio.web import markup

PART_LABELS = {
    "summary": "Summary",
    "strengths": "Strengths",
    "concerns": "Concerns",
    "questions": "Questions about method",
    "conflict": "Conflict of interest",
}
CONFIDENCE_LABELS = {
    1: "an educated guess",
    2: "not sure",
    3: "fairly confident",
    4: "confident",
    5: "certain: this is my field",
}
_MOST_HANDLES = 200


@dataclass(frozen=True)
class Byline:
    """Who wrote something."""

    handle: str
    name: str


@dataclass(frozen=True)
class Standing:
    """What all opinions have in common, as seen by one reader."""

    id: int
    paper: str
    """Its slug."""
    author: Byline | None
    """Nobody, where the reader may not read the text."""
    state: str
    mine: bool
    revision: int
    created_at: datetime
    updated_at: datetime
    reason: str
    """Why it is hidden, for those who may know."""
    useful: Useful
    may_judge: bool
    """Whether the reader may mark it as useful or report it."""

    @property
    def is_edited(self) -> bool:
        """Whether there is an earlier version."""
        return self.revision > 1


@dataclass(frozen=True)
class Part:
    """A part of a review: its name, what it is called, the text and how it looks."""

    name: str
    label: str
    text: str
    html: Markup


@dataclass(frozen=True)
class ReviewView(Standing):
    """A review the reader may read."""

    parts: tuple[Part, ...]
    confidence: int

    @property
    def confidence_label(self) -> str:
        """The confidence in words."""
        return CONFIDENCE_LABELS[self.confidence]


@dataclass(frozen=True)
class CommentView(Standing):
    """A comment; ``text`` and ``html`` are empty where the reader may not read it."""

    parent_id: int | None
    kind: str
    text: str
    html: Markup

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.state == "visible"


def show_reviews(
    db: Session, actor: Actor, paper: Paper, reviews: Sequence[Review]
) -> tuple[ReviewView, ...]:
    """Prepare reviews of ``paper`` for a reader; those she may not read are left out."""
    reviews = [review for review in reviews if may_read(actor, review)]
    texts = [getattr(review, part) for review in reviews for part in REVIEW_PARTS]
    render = renderer(db, paper, texts)
    reasons = _reasons(db, "review", reviews)
    marks = useful(db, actor, ReviewMark, [review.id for review in reviews])

    def parts(review: Review) -> tuple[Part, ...]:
        texts = {name: getattr(review, name) for name in REVIEW_PARTS}
        return tuple(
            Part(name, PART_LABELS[name], text, render(text))
            for name, text in texts.items()
            if text
        )

    return tuple(
        ReviewView(
            **_standing(actor, paper, review, reasons, marks),
            parts=parts(review),
            confidence=review.confidence,
        )
        for review in reviews
    )


def show_comments(
    db: Session, actor: Actor, paper: Paper, comments: Sequence[Comment]
) -> tuple[CommentView, ...]:
    """Prepare comments on ``paper`` for a reader; the unreadable keep their place without text."""
    seen = [comment for comment in comments if may_read(actor, comment)]
    render = renderer(db, paper, [comment.body for comment in seen])
    reasons = _reasons(db, "comment", seen)
    texts = {comment.id: comment.body for comment in seen}
    marks = useful(db, actor, CommentMark, list(texts))
    return tuple(
        CommentView(
            **_standing(actor, paper, comment, reasons, marks),
            parent_id=comment.parent_id,
            kind=comment.kind,
            text=texts.get(comment.id, ""),
            html=render(texts.get(comment.id, "")),
        )
        for comment in comments
    )


def renderer(db: Session, paper: Paper | None, texts: Iterable[str]) -> Callable[[str], Markup]:
    """Return how ``texts`` are rendered on the page of ``paper``."""
    handles = {name for text in texts if "@" in text for name in markup.mentions(text).handles}
    some = sorted(handles)[:_MOST_HANDLES]
    known = db.scalars(select(User.handle).where(User.handle.in_(some))) if some else ()
    around = markup.Surroundings(handles=frozenset(known))
    if paper is not None:
        anchors = db.scalars(select(Claim.anchor).where(Claim.paper_id == paper.id))
        around = markup.Surroundings(paper.slug, frozenset(anchors), around.handles)
    return lambda text: markup.render(text, around)


def _standing(
    actor: Actor,
    paper: Paper,
    opinion: Opinion,
    reasons: dict[int, str],
    marks: dict[int, Useful],
) -> dict[str, Any]:
    readable = may_read(actor, opinion)
    mine = actor.id is not None and opinion.author_id == actor.id
    return {
        "id": opinion.id,
        "paper": paper.slug,
        "author": Byline(opinion.author.handle, opinion.author.name) if readable else None,
        "state": opinion.state,
        "mine": mine,
        "revision": opinion.revision,
        "created_at": opinion.created_at,
        "updated_at": opinion.updated_at,
        "reason": reasons.get(opinion.id, "") if readable else "",
        "useful": marks.get(opinion.id, Useful()),
        "may_judge": not actor.is_visitor and not mine and opinion.state == "visible",
    }


def _reasons(db: Session, kind: str, opinions: Sequence[Opinion]) -> dict[int, str]:
    """Return why each hidden opinion is hidden: the moderator's note, else the report's words."""
    hidden = [opinion.id for opinion in opinions if opinion.state == "hidden"]
    if not hidden:
        return {}
    upheld = select(Flag).where(
        Flag.subject_kind == kind, Flag.subject_id.in_(hidden), Flag.state == "upheld"
    )
    return {flag.subject_id: flag.note or flag.reason for flag in db.scalars(upheld)}
