"""Structured reviews: one for each reader and paper, editable, with every version kept.

An edit names the revision it started from. If the review has moved on, nothing is written and
the text is given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import InvalidError
from exactformer.studio.opinions.conflicts import ChangedMeanwhileError
from exactformer.studio.opinions.tables import REVIEW_PARTS
from exactformer.studio.opinions.visibility import readable, require_author, require_readable
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import Slice, cut
from exactformer.studio.storage.tables import Flag, Paper, Review, ReviewVersion
from exactformer.studio.storage.upserting import add
from exactformer.studio.web.text_checks import prose

LIMITS = dict.fromkeys(REVIEW_PARTS, 20_000) | {"conflict": 2_000}
"""Characters of each part."""


@dataclass(frozen=True)
class ReviewDraft:
    """What a reader fills in."""

    summary: str
    strengths: str = ""
    concerns: str = ""
    questions: str = ""
    conflict: str = ""
    confidence: int = 3

    def checked(self) -> ReviewDraft:
        """Return it ready to store."""
        if not 1 <= self.confidence <= 5:
            raise InvalidError(f"confidence is a number from 1 to 5, not {self.confidence}")
        texts = {
            part: prose(part, getattr(self, part), LIMITS[part], required=part == "summary")
            for part in REVIEW_PARTS
        }
        return ReviewDraft(**texts, confidence=self.confidence)


class ReviewConflictError(ChangedMeanwhileError[Review, ReviewDraft]):
    """The review is not what the draft started from."""


def draft_of(review: Review | ReviewVersion) -> ReviewDraft:
    """Return what ``review`` says."""
    texts = {part: getattr(review, part) for part in REVIEW_PARTS}
    return ReviewDraft(**texts, confidence=review.confidence)


def write(db: Session, actor: Actor, paper: Paper, draft: ReviewDraft) -> Review:
    """Write the actor's review of ``paper``; one she deleted is taken up again."""
    author_id = actor.require("reader")
    draft = draft.checked()
    earlier = mine(db, actor, paper)
    if earlier is not None and earlier.state == "deleted":
        earlier.state = "hidden" if _was_hidden(db, earlier) else "visible"
        return _change(db, actor, earlier, draft, "review.restore")
    key = {"paper_id": paper.id, "author_id": author_id}
    added = add(db, Review, key, **asdict(draft))
    review = mine(db, actor, paper)
    assert review is not None
    if not added:
        raise ReviewConflictError(
            "you have reviewed this paper already: edit that review", review, draft
        )
    _keep_version(db, review)
    audit.record(db, actor, "review.create", "review", review.id, {"paper": paper.slug})
    return review


def edit(db: Session, actor: Actor, review_id: int, draft: ReviewDraft, revision: int) -> Review:
    """Change a review from the state ``revision``."""
    actor.require("reader")
    statement = select(Review).where(Review.id == review_id).with_for_update()
    review = db.scalar(statement.execution_options(populate_existing=True))
    require_readable(actor, review, "review")
    assert review is not None
    require_author(actor, review, "review")
    draft = draft.checked()
    if review.state == "deleted":
        raise ReviewConflictError("the review was deleted: write it anew", review, draft)
    if review.revision != revision:
        raise ReviewConflictError(
            f"the review was changed meanwhile (version {review.revision}, yours started from "
            f"{revision}); your text was not written: bring the two together and send it again",
            review,
            draft,
        )
    if draft == draft_of(review):
        return review
    return _change(db, actor, review, draft, "review.edit")


def put(db: Session, actor: Actor, paper: Paper, draft: ReviewDraft) -> Review:
    """Make ``draft`` the actor's review of ``paper``, whatever stood there before."""
    actor.require("reader")
    review = mine(db, actor, paper)
    if review is None or review.state == "deleted":
        return write(db, actor, paper, draft)
    return edit(db, actor, review.id, draft, review.revision)


def remove(db: Session, actor: Actor, review_id: int) -> Review:
    """Delete the actor's own review: nobody else sees it any more."""
    actor.require("reader")
    review = get(db, actor, review_id)
    require_author(actor, review, "review")
    if review.state != "deleted":
        review.state = "deleted"
        audit.record(db, actor, "review.delete", "review", review.id, {})
    return review


def get(db: Session, actor: Actor, review_id: int) -> Review:
    """Return a review the actor may read."""
    review = db.get(Review, review_id, options=[selectinload(Review.author)])
    require_readable(actor, review, "review")
    assert review is not None
    return review


def mine(db: Session, actor: Actor, paper: Paper) -> Review | None:
    """Return the actor's own review of ``paper``, in whatever state it is."""
    if actor.is_visitor:
        return None
    own = select(Review).where(Review.paper_id == paper.id, Review.author_id == actor.id)
    return db.scalar(own.options(selectinload(Review.author)))


def listing(db: Session, actor: Actor, paper: Paper, limit: int, offset: int = 0) -> Slice[Review]:
    """Return the reviews of ``paper`` that the actor may read, her own first, then the newest."""
    own_first = case((Review.author_id == (actor.id or 0), 0), else_=1)
    statement = (
        select(Review)
        .where(Review.paper_id == paper.id, readable(actor, Review))
        .order_by(own_first, Review.updated_at.desc(), Review.id.desc())
    )
    return cut(db, statement, limit, offset, selectinload(Review.author))


def versions(db: Session, actor: Actor, review_id: int) -> Sequence[ReviewVersion]:
    """Return all versions of a review the actor may read, the first first."""
    review = get(db, actor, review_id)
    own = select(ReviewVersion).where(ReviewVersion.review_id == review.id)
    return db.scalars(own.order_by(ReviewVersion.revision)).all()


def _change(db: Session, actor: Actor, review: Review, draft: ReviewDraft, action: str) -> Review:
    for name, value in asdict(draft).items():
        setattr(review, name, value)
    review.revision += 1
    review.updated_at = now()
    _keep_version(db, review)
    audit.record(db, actor, action, "review", review.id, {"revision": review.revision})
    return review


def _keep_version(db: Session, review: Review) -> None:
    version = ReviewVersion(
        review_id=review.id, revision=review.revision, **asdict(draft_of(review))
    )
    db.add(version)
    db.flush()


def _was_hidden(db: Session, review: Review) -> bool:
    """Whether moderators took the review down before its author deleted it."""
    upheld = select(func.count()).select_from(Flag)
    upheld = upheld.where(
        Flag.subject_kind == "review", Flag.subject_id == review.id, Flag.state == "upheld"
    )
    return bool(db.scalar(upheld))
