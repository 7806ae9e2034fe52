"""Structured reviews: one for each reader and paper, editable, with every version kept."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.opinions.quick import rank
from exactformer.studio.opinions.tables import (
    REVIEW_PARTS,
    Flag,
    Review,
    ReviewMark,
    ReviewVersion,
)
from exactformer.studio.opinions.texts import ChangedMeanwhileError, Draft, TextKind, readable
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.slices import Slice, cut
from exactformer.studio.storage.upserts import add
from exactformer.studio.web.markup import prose
from exactformer.studio.web.types import Clean

LIMIT, CONFLICT_LIMIT = 20_000, 2_000
LIMITS = dict.fromkeys(REVIEW_PARTS, LIMIT) | {"conflict": CONFLICT_LIMIT}
"""Characters of each part."""

Sort = Literal["newest", "useful"]


class ReviewDraft(Draft):
    """A review by its template; all parts are markdown."""

    parts = (*REVIEW_PARTS, "confidence")

    summary: Clean
    strengths: Clean = ""
    concerns: Clean = ""
    questions: Clean = ""
    conflict: Clean = ""
    confidence: Annotated[int, Field(ge=1, le=5)] = 3

    def checked(self) -> dict[str, Any]:
        """Return it ready to store."""
        if not 1 <= self.confidence <= 5:
            raise InvalidError(f"confidence is a number from 1 to 5, not {self.confidence}")
        texts = {
            part: prose(part, getattr(self, part), LIMITS[part], required=part == "summary")
            for part in REVIEW_PARTS
        }
        return texts | {"confidence": self.confidence}


REVIEWS = TextKind("review", Review, ReviewVersion, ReviewMark, ReviewDraft)
get, edit, remove, versions = REVIEWS.get, REVIEWS.edit, REVIEWS.remove, REVIEWS.versions


def draft_of(review: Review | ReviewVersion) -> ReviewDraft:
    """Return what ``review`` says."""
    return ReviewDraft.model_construct(**REVIEWS.values(review))


def write(db: Session, actor: Actor, paper: Paper, draft: ReviewDraft) -> Review:
    """Write the actor's review of ``paper``; one she deleted is taken up again."""
    author_id = actor.require("reader")
    values = draft.checked()
    earlier = mine(db, actor, paper)
    if earlier is not None and earlier.state == "deleted":
        earlier.state = "hidden" if _was_hidden(db, earlier) else "visible"
        return REVIEWS.change(db, actor, earlier, values, "restore")
    if earlier is not None or not add(
        db, Review, {"paper_id": paper.id, "author_id": author_id}, **values
    ):
        review = earlier or mine(db, actor, paper)
        assert review is not None
        raise ChangedMeanwhileError(
            "you have reviewed this paper already: edit that review", review, draft
        )
    review = mine(db, actor, paper)
    assert review is not None
    REVIEWS.keep(db, review)
    notices.review_written(db, review)
    audit.record(db, actor, "review.create", "review", review.id, {"paper": paper.slug})
    return review


def mine(db: Session, actor: Actor, paper: Paper) -> Review | None:
    """Return the actor's own review of ``paper``, in whatever state it is."""
    if actor.is_visitor:
        return None
    own = select(Review).where(Review.paper_id == paper.id, Review.author_id == actor.id)
    return db.scalar(own.options(selectinload(Review.author)))


def listing(
    db: Session,
    actor: Actor,
    paper: Paper,
    limit: int,
    offset: int = 0,
    sort: Sort = "newest",
) -> Slice[Review]:
    """Return the reviews of ``paper`` that the actor may read.

    The newest come first, after her own; or the most useful, and of equals the newest.
    """
    own_first = case((Review.author_id == (actor.id or 0), 0), else_=1)
    statement = (
        select(Review)
        .where(Review.paper_id == paper.id, readable(actor, Review))
        .order_by(rank(ReviewMark, Review).desc() if sort == "useful" else own_first)
        .order_by(Review.updated_at.desc(), Review.id.desc())
    )
    return cut(db, statement, limit, offset, selectinload(Review.author))


def _was_hidden(db: Session, review: Review) -> bool:
    """Whether moderators took the review down before its author deleted it."""
    upheld = select(func.count()).select_from(Flag)
    upheld = upheld.where(
        Flag.subject_kind == "review", Flag.subject_id == review.id, Flag.state == "upheld"
    )
    return bool(db.scalar(upheld))
