"""Like or dislike: one vote for each reader and paper."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.tables import Paper, Vote
from exactformer.studio.storage.upserts import put
from exactformer.studio.storage.versions import touch


@dataclass(frozen=True)
class Tally:
    """How a paper is liked, and what the asker said: 1, −1, or 0 for nothing."""

    likes: int
    dislikes: int
    mine: int


def tally(db: Session, actor: Actor, paper: Paper) -> Tally:
    """Count the votes for ``paper``."""
    of_paper = select(Vote.value, func.count()).where(Vote.paper_id == paper.id)
    counts = dict(db.execute(of_paper.group_by(Vote.value)).all())
    return Tally(counts.get(1, 0), counts.get(-1, 0), _mine(db, actor.id, paper))


def cast(db: Session, actor: Actor, paper: Paper, value: int) -> Tally:
    """Set the actor's vote to like (1), dislike (−1) or none (0)."""
    user_id = actor.require("reader")
    if value not in (-1, 0, 1):
        raise InvalidError(f"a vote is 1 (like), -1 (dislike) or 0 (none), not {value}")
    before = _mine(db, user_id, paper)
    touch(db, paper.id)
    if value == 0:
        db.execute(delete(Vote).where(Vote.paper_id == paper.id, Vote.user_id == user_id))
    else:
        put(db, Vote, {"paper_id": paper.id, "user_id": user_id}, value=value)
    if value != before:
        audit.record(db, actor, "vote.cast", "paper", paper.id, {"value": value, "before": before})
    return tally(db, actor, paper)


def _mine(db: Session, user_id: int | None, paper: Paper) -> int:
    if user_id is None:
        return 0
    own = select(Vote.value).where(Vote.paper_id == paper.id, Vote.user_id == user_id)
    return db.scalar(own) or 0
