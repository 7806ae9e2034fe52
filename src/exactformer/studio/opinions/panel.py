"""Everything a paper's page says about what readers think, gathered at once."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.opinions import quick, reviews, threads
from exactformer.studio.opinions.collections import MOST_COLLECTIONS
from exactformer.studio.opinions.tables import (
    Collection,
    CollectionItem,
    Comment,
    CommentMention,
    Review,
)
from exactformer.studio.opinions.views import ReviewView, show_reviews
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.slices import Slice

REVIEWS = 10
"""Reviews on a page."""


@dataclass(frozen=True)
class Choice:
    """One of the reader's collections, and whether the paper is in it."""

    id: int
    title: str
    contains: bool


@dataclass(frozen=True)
class Place:
    """Where a paper is found."""

    id: int
    slug: str


@dataclass(frozen=True)
class Bar:
    """What readers say quickly about ``paper``: votes, reactions, saves."""

    paper: Place
    votes: quick.Tally
    reactions: tuple[quick.ReactionCount, ...]
    saves: quick.SaveCount
    collections: tuple[Choice, ...]


@dataclass(frozen=True)
class Panel(Bar):
    """All that readers think of ``paper``, for one reader."""

    reviews: Slice[ReviewView]
    review_count: int
    """Visible reviews: what everybody counts, whoever asks."""
    my_review: Review | None
    discussion: threads.Discussion


def bar(db: Session, actor: Actor, paper: Paper) -> Bar:
    """Read what is said quickly, and which of the actor's collections have the paper."""
    return Bar(
        Place(paper.id, paper.slug),
        quick.votes(db, actor, paper),
        quick.reactions(db, actor, paper),
        quick.saves(db, actor, paper),
        _choices(db, actor, paper),
    )


def _choices(db: Session, actor: Actor, paper: Paper) -> tuple[Choice, ...]:
    if actor.id is None:
        return ()
    holding = select(CollectionItem.collection_id).where(CollectionItem.paper_id == paper.id)
    own = select(Collection.id, Collection.title, Collection.id.in_(holding))
    own = own.where(Collection.owner_id == actor.id).order_by(Collection.title, Collection.id)
    return tuple(Choice(*row) for row in db.execute(own.limit(MOST_COLLECTIONS)))


def gather(db: Session, actor: Actor, paper: Paper) -> Panel:
    """Read what the page of ``paper`` shows to ``actor``."""
    return Panel(
        **vars(bar(db, actor, paper)),
        reviews=review_page(db, actor, paper),
        review_count=count_reviews(db, paper),
        my_review=reviews.mine(db, actor, paper),
        discussion=threads.discussion(db, actor, paper),
    )


def review_page(
    db: Session, actor: Actor, paper: Paper, page: int = 1, sort: reviews.Sort = "newest"
) -> Slice[ReviewView]:
    """Return a page of the reviews of ``paper``."""
    found = reviews.listing(db, actor, paper, REVIEWS, (page - 1) * REVIEWS, sort)
    views = show_reviews(db, actor, paper, found.items)
    return Slice(views, found.total, found.limit, found.offset)


def count_reviews(db: Session, paper: Paper) -> int:
    """Count the visible reviews of ``paper``."""
    visible = select(func.count()).select_from(Review)
    visible = visible.where(Review.paper_id == paper.id, Review.state == "visible")
    return db.scalar(visible) or 0


def mentions(db: Session, paper: Paper) -> dict[str, int]:
    """Count the visible comments that speak of each claim of ``paper``, by its anchor."""
    statement = (
        select(Claim.anchor, func.count())
        .join(CommentMention, CommentMention.claim_id == Claim.id)
        .join(Comment, Comment.id == CommentMention.comment_id)
        .where(Claim.paper_id == paper.id, Comment.state == "visible")
        .group_by(Claim.anchor)
    )
    return dict(db.execute(statement).all())
