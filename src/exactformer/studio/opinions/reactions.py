"""Specific reactions to a paper; a reader may have several."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.opinions.tables import REACTIONS
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.tables import Paper, Reaction
from exactformer.studio.storage.upserts import add
from exactformer.studio.storage.versions import touch


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


def tally(db: Session, actor: Actor, paper: Paper) -> tuple[ReactionCount, ...]:
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
    user_id = actor.require("reader")
    if kind not in REACTIONS:
        raise InvalidError(f"a reaction is one of {', '.join(REACTIONS)}, not {kind!r}")
    key = {"paper_id": paper.id, "user_id": user_id, "kind": kind}
    touch(db, paper.id)
    if on:
        changed = add(db, Reaction, key)
    else:
        gone = delete(Reaction).filter_by(**key).returning(Reaction.kind)
        changed = db.execute(gone).first() is not None
    if changed:
        action = "reaction.show" if on else "reaction.withdraw"
        audit.record(db, actor, action, "paper", paper.id, {"kind": kind})
    return tally(db, actor, paper)
