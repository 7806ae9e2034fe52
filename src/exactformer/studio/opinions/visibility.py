"""Who may read a review or a comment.

Visible ones are everybody's. A hidden one (moderators took it down) is read by its author and by
curators; a deleted one by its author alone.
"""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import ColumnElement, and_, or_

from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.tables import Comment, Review

Opinion: TypeAlias = Review | Comment


def may_read(actor: Actor, opinion: Opinion) -> bool:
    """Whether ``actor`` may see the text of ``opinion``."""
    if opinion.state == "visible" or is_author(actor, opinion):
        return True
    return opinion.state == "hidden" and actor.at_least("curator")


def readable(actor: Actor, model: type[Review] | type[Comment]) -> ColumnElement[bool]:
    """What :func:`may_read` says, as a condition for the database; deleted ones are left out."""
    if actor.at_least("curator"):
        return model.state.in_(("visible", "hidden"))
    own = and_(model.state == "hidden", model.author_id == actor.id)
    return or_(model.state == "visible", own)


def is_author(actor: Actor, opinion: Opinion) -> bool:
    """Whether ``actor`` wrote ``opinion``."""
    return actor.id is not None and opinion.author_id == actor.id
