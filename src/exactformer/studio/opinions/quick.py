"""What readers say with one press: like or dislike, reactions, papers to keep, useful texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, case, delete, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions.tables import (
    REACTIONS,
    Comment,
    CommentMark,
    Reaction,
    Review,
    ReviewMark,
    Save,
    Vote,
)
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit, upserts
from exactformer.studio.storage.slices import Slice, cut

Mark: TypeAlias = type[ReviewMark] | type[CommentMark]


@dataclass(frozen=True)
class Tally:
    """How a paper is liked, and what the asker said: 1, −1, or 0 for nothing."""

    likes: int
    dislikes: int
    mine: int


@dataclass(frozen=True)
class ReactionCount:
    """How many readers react so, and whether the asker does."""

    kind: str
    count: int
    mine: bool

    @property
    def label(self) -> str:
        """The kind in words."""
        return self.kind.replace("-", " ")


@dataclass(frozen=True)
class SaveCount:
    """How many readers keep a paper, and whether the asker does."""

    count: int
    mine: bool


@dataclass(frozen=True)
class Useful:
    """How many readers find a text useful, and whether the asker does."""

    count: int = 0
    mine: bool = False


def votes(db: Session, actor: Actor, paper: Paper) -> Tally:
    """Count the votes for ``paper``."""
    of_paper = select(Vote.value, func.count()).where(Vote.paper_id == paper.id)
    counts = dict(db.execute(of_paper.group_by(Vote.value)).all())
    return Tally(counts.get(1, 0), counts.get(-1, 0), _vote(db, actor.id, paper))


def vote(db: Session, actor: Actor, paper: Paper, value: int) -> Tally:
    """Set the actor's vote to like (1), dislike (−1) or none (0)."""
    user_id = actor.require("reader")
    if value not in (-1, 0, 1):
        raise InvalidError(f"a vote is 1 (like), -1 (dislike) or 0 (none), not {value}")
    before = _vote(db, user_id, paper)
    key = {"paper_id": paper.id, "user_id": user_id}
    if value == 0:
        db.execute(delete(Vote).filter_by(**key))
    else:
        upserts.put(db, Vote, key, value=value)
    if value != before:
        audit.record(db, actor, "vote.cast", "paper", paper.id, {"value": value, "before": before})
    return votes(db, actor, paper)


def _vote(db: Session, user_id: int | None, paper: Paper) -> int:
    if user_id is None:
        return 0
    own = select(Vote.value).where(Vote.paper_id == paper.id, Vote.user_id == user_id)
    return db.scalar(own) or 0


def reactions(db: Session, actor: Actor, paper: Paper) -> tuple[ReactionCount, ...]:
    """Count each kind of reaction to ``paper``; kinds nobody has shown come with 0."""
    of_paper = select(Reaction.kind, func.count()).where(Reaction.paper_id == paper.id)
    counts = dict(db.execute(of_paper.group_by(Reaction.kind)).all())
    own = select(Reaction.kind).where(Reaction.paper_id == paper.id, Reaction.user_id == actor.id)
    mine = set(db.scalars(own))
    return tuple(ReactionCount(kind, counts.get(kind, 0), kind in mine) for kind in REACTIONS)


def react(
    db: Session, actor: Actor, paper: Paper, kind: str, on: bool
) -> tuple[ReactionCount, ...]:
    """Show a reaction, or take it back."""
    actor.require("reader")
    if kind not in REACTIONS:
        raise InvalidError(f"a reaction is one of {', '.join(REACTIONS)}, not {kind!r}")
    if _switch(db, actor, paper, Reaction, on, kind=kind):
        action = "reaction.show" if on else "reaction.withdraw"
        audit.record(db, actor, action, "paper", paper.id, {"kind": kind})
    return reactions(db, actor, paper)


def saves(db: Session, actor: Actor, paper: Paper) -> SaveCount:
    """Count the saves of ``paper``."""
    of_paper = select(func.count()).select_from(Save).where(Save.paper_id == paper.id)
    own = db.scalar(of_paper.where(Save.user_id == actor.id))
    return SaveCount(db.scalar(of_paper) or 0, bool(own))


def save(db: Session, actor: Actor, paper: Paper, on: bool) -> SaveCount:
    """Keep ``paper`` for later, or no longer."""
    if _switch(db, actor, paper, Save, on):
        audit.record(db, actor, "save.keep" if on else "save.forget", "paper", paper.id)
    return saves(db, actor, paper)


def saved(db: Session, actor: Actor, limit: int, offset: int = 0) -> Slice[Paper]:
    """Return papers the actor keeps, the last kept first."""
    user_id = actor.require("reader")
    newest = (
        select(Paper)
        .join(Save, Save.paper_id == Paper.id)
        .where(Save.user_id == user_id)
        .order_by(Save.created_at.desc(), Paper.id)
    )
    return cut(db, newest, limit, offset)


def _switch(
    db: Session, actor: Actor, paper: Paper, model: type[Reaction | Save], on: bool, **more: Any
) -> bool:
    """Add the actor's row for ``paper``, or take it away; return whether that changed anything."""
    key = {"paper_id": paper.id, "user_id": actor.require("reader"), **more}
    return upserts.switch(db, model, key, on)


def useful(db: Session, actor: Actor, mark: Mark, ids: Sequence[int]) -> dict[int, Useful]:
    """Count the marks of these texts; a text without marks is left out."""
    if not ids:
        return {}
    own = func.max(case((mark.user_id == (actor.id or 0), 1), else_=0))
    rows = select(mark.text_id, func.count(), own).where(mark.text_id.in_(ids))
    return {
        id: Useful(count, bool(mine)) for id, count, mine in db.execute(rows.group_by(mark.text_id))
    }


def rank(mark: Mark, model: type[Review] | type[Comment]) -> ColumnElement[int]:
    """Return the number of marks of a text as a column; what is not visible has none."""
    count = select(func.count()).select_from(mark).where(mark.text_id == model.id)
    return case((model.state == "visible", count.scalar_subquery()), else_=0)
