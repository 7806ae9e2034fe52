"""What a reader has written, on a page of her own."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import NotFoundError
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions.tables import Comment, Review

LATEST = 50
"""Reviews and comments listed."""


@dataclass(frozen=True)
class Profile:
    """A reader with her latest visible reviews and comments, each beside its paper."""

    user: User
    reviews: tuple[tuple[Review, Paper], ...]
    comments: tuple[tuple[Comment, Paper], ...]


def profile(db: Session, handle: str) -> Profile:
    """Return what everybody may know of a reader."""
    user = db.scalar(select(User).where(User.handle == handle.lower()))
    if user is None:
        raise NotFoundError(f"there is no reader {handle!r}")
    reviews = (
        select(Review, Paper)
        .join(Paper, Paper.id == Review.paper_id)
        .where(Review.author_id == user.id, Review.state == "visible")
        .order_by(Review.updated_at.desc(), Review.id.desc())
    )
    comments = (
        select(Comment, Paper)
        .join(Paper, Paper.id == Comment.paper_id)
        .where(Comment.author_id == user.id, Comment.state == "visible")
        .order_by(Comment.created_at.desc(), Comment.id.desc())
    )
    return Profile(
        user,
        tuple((row[0], row[1]) for row in db.execute(reviews.limit(LATEST))),
        tuple((row[0], row[1]) for row in db.execute(comments.limit(LATEST))),
    )
