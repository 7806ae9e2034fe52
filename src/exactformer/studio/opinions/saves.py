"""Papers kept for later."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.slices import Slice, cut
from exactformer.studio.storage.tables import Paper, Save
from exactformer.studio.storage.upserts import add
from exactformer.studio.storage.versions import touch


@dataclass(frozen=True)
class SaveCount:
    """How many readers keep a paper, and whether the asker does."""

    count: int
    mine: bool


def tally(db: Session, actor: Actor, paper: Paper) -> SaveCount:
    """Count the saves of ``paper``."""
    of_paper = select(func.count()).select_from(Save).where(Save.paper_id == paper.id)
    own = db.scalar(of_paper.where(Save.user_id == actor.id))
    return SaveCount(db.scalar(of_paper) or 0, bool(own))


def save(db: Session, actor: Actor, paper: Paper, on: bool) -> SaveCount:
    """Keep ``paper`` for later, or no longer."""
    user_id = actor.require("reader")
    touch(db, paper.id)
    if on:
        changed = add(db, Save, {"paper_id": paper.id, "user_id": user_id})
    else:
        gone = delete(Save).where(Save.paper_id == paper.id, Save.user_id == user_id)
        changed = db.execute(gone.returning(Save.paper_id)).first() is not None
    if changed:
        audit.record(db, actor, "save.keep" if on else "save.forget", "paper", paper.id)
    return tally(db, actor, paper)


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
