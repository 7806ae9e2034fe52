"""Everything a paper's page says about what readers think, gathered at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    Select,
    String,
    bindparam,
    case,
    func,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.opinions import quick, reviews, threads
from exactformer.studio.opinions.collections import MOST_COLLECTIONS
from exactformer.studio.opinions.quick import MARKED
from exactformer.studio.opinions.tables import (
    Collection,
    CollectionItem,
    Comment,
    CommentMention,
    Reaction,
    Review,
    Save,
    Vote,
)
from exactformer.studio.opinions.views import ReviewView, show_reviews
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.storage.slices import Slice

Numbers = ColumnElement[int] | InstrumentedAttribute[int]
Words = ColumnElement[str] | InstrumentedAttribute[str]

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


@dataclass(frozen=True)
class Own:
    """What one reader has said about a paper, and whether she has written about it."""

    vote: int = 0
    reactions: frozenset[str] = frozenset()
    saved: bool = False
    collections: tuple[Choice, ...] = ()
    has_written: bool = False
    marks: frozenset[str] = field(default=frozenset(), compare=False)
    """Texts she finds useful, as ``review-7``; the bar does not show them."""

    def mark(self, bar: Bar) -> Bar:
        """Return a bar that was read for nobody as it looks to this reader."""
        return Bar(
            bar.paper,
            replace(bar.votes, mine=self.vote),
            tuple(replace(each, mine=each.kind in self.reactions) for each in bar.reactions),
            replace(bar.saves, mine=self.saved),
            self.collections,
        )


def _own_rows() -> CompoundSelect[str, int, str]:
    """Select all that a reader has to do with a paper: what, a number, and a word."""
    paper, reader = bindparam("paper", type_=Integer), bindparam("reader", type_=Integer)

    def rows(
        what: str, number: Numbers, word: Words, *conditions: ColumnElement[bool]
    ) -> Select[str, int, str]:
        return select(literal_column(f"'{what}'", String), number, word).where(*conditions)

    one, nothing = literal_column("1", Integer), literal_column("''", String)
    holding = select(CollectionItem.collection_id).where(CollectionItem.paper_id == paper)
    contains = case((Collection.id.in_(holding), Collection.id), else_=-Collection.id)
    return union_all(
        rows("vote", Vote.value, nothing, Vote.paper_id == paper, Vote.user_id == reader),
        rows(
            "reaction", one, Reaction.kind, Reaction.paper_id == paper, Reaction.user_id == reader
        ),
        rows("save", one, nothing, Save.paper_id == paper, Save.user_id == reader),
        rows("text", one, nothing, Review.paper_id == paper, Review.author_id == reader),
        rows("text", one, nothing, Comment.paper_id == paper, Comment.author_id == reader),
        rows("collection", contains, Collection.title, Collection.owner_id == reader),
        *(
            rows(
                f"{kind}-mark",
                mark.text_id,
                nothing,
                text.id == mark.text_id,
                text.paper_id == paper,
                mark.user_id == reader,
            )
            for kind, mark, text in MARKED
        ),
    )


_OWN_ROWS = _own_rows()


def own(connection: Connection, actor: Actor, paper_id: int) -> Own:
    """Read what ``actor`` has to do with a paper, in one query."""
    if actor.id is None:
        return Own()
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for what, number, word in connection.execute(
        _OWN_ROWS, {"paper": paper_id, "reader": actor.id}
    ):
        found[what].append((number, word))
    titles = sorted(found["collection"], key=lambda row: (row[1], abs(row[0])))
    return Own(
        vote=next((number for number, _ in found["vote"]), 0),
        reactions=frozenset(word for _, word in found["reaction"]),
        saved=bool(found["save"]),
        collections=tuple(
            Choice(abs(number), title, number > 0) for number, title in titles[:MOST_COLLECTIONS]
        ),
        has_written=bool(found["text"]),
        marks=frozenset(
            f"{kind}-{number}" for kind, *_ in MARKED for number, _ in found[f"{kind}-mark"]
        ),
    )


def bar(db: Session, actor: Actor, paper: Paper) -> Bar:
    """Read what is said quickly: what all readers share, and what is the actor's own."""
    shared = Bar(
        Place(paper.id, paper.slug),
        quick.votes(db, VISITOR, paper),
        quick.reactions(db, VISITOR, paper),
        quick.saves(db, VISITOR, paper),
        (),
    )
    return own(db.connection(), actor, paper.id).mark(shared)


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
