"""Texts of readers, said once for reviews and comments: edit with revision, history, delete, marks.

Every state of a text is kept as a version, with all of its fields. An edit names the revision that it
started from. If the text has changed since, nothing is written and the draft is given back.

Visible texts are everybody's. A hidden one (moderators took it down) is read by its author and by
curators; a deleted one by its author alone. Others mark visible texts as useful; a text that its
author deletes loses its marks, since what she writes in its place is another text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, and_, delete, or_, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from exactformer.studio.notices import service as notices
from exactformer.studio.opinions.quick import Mark, Useful, useful
from exactformer.studio.opinions.tables import Comment, CommentVersion, Review, ReviewVersion
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit, upserts
from exactformer.studio.storage.base import now
from exactformer.studio.web.types import Body

Row = TypeVar("Row", Review, Comment)
State = TypeVar("State", ReviewVersion, CommentVersion)
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


class Draft(Body, ABC):
    """Parent of what a reader fills in: the one model of its form and its service.

    The service judges limits (:meth:`checked`), so that a text that is too long comes back to its
    author instead of being lost.
    """

    parts: ClassVar[tuple[str, ...]]

    @abstractmethod
    def checked(self) -> dict[str, Any]:
        """Return its parts ready to store, or refuse."""


class ChangedMeanwhileError(ConflictError, Generic[Row]):
    """The ``draft`` was not written: ``current`` is not what it started from.

    Nothing is lost: the error carries what stands now and what the author was about to write.
    """

    def __init__(self, message: str, current: Row, draft: Draft) -> None:
        super().__init__(message)
        self.current: Row = current
        self.draft = draft


def _nothing(db: Session, row: Any) -> None:
    """Do nothing more."""


@dataclass(frozen=True)
class TextKind(Generic[Row, State]):
    """A kind of text: its name, its tables, its model, and what storing it brings along."""

    name: str
    row: type[Row]
    version: type[State]
    marks: Mark
    draft: type[Draft]
    stored: Callable[[Session, Row], None] = _nothing

    def get(self, db: Session, actor: Actor, id: int) -> Row:
        """Return a text that the actor may read."""
        return self._readable(actor, db.get(self.row, id, options=[selectinload(self.row.author)]))

    def own(self, db: Session, actor: Actor, id: int) -> Row:
        """Return one of the actor's own texts."""
        row = self.get(db, actor, id)
        self._require_author(actor, row)
        return row

    def edit(self, db: Session, actor: Actor, id: int, draft: Draft, revision: int) -> Row:
        """Change a text from the state ``revision``."""
        actor.require("reader")
        statement = select(self.row).where(self.row.id == id).with_for_update()
        found = db.scalar(statement.execution_options(populate_existing=True))
        row = self._readable(actor, found)
        self._require_author(actor, row)
        values = draft.checked()
        if row.state == "deleted":
            raise ChangedMeanwhileError(f"the {self.name} was deleted: write it anew", row, draft)
        if row.revision != revision:
            raise ChangedMeanwhileError(
                f"the {self.name} was changed meanwhile (version {row.revision}, yours started from "
                f"{revision}); your text was not written: bring the two together and send it again",
                row,
                draft,
            )
        return row if values == self.values(row) else self.change(db, actor, row, values, "edit")

    def remove(self, db: Session, actor: Actor, id: int) -> Row:
        """Delete one of the actor's own texts: nobody else reads it any more."""
        actor.require("reader")
        row = self.own(db, actor, id)
        if row.state != "deleted":
            row.state = "deleted"
            notices.forget(db, row)
            db.execute(delete(self.marks).where(self.marks.text_id == row.id))
            audit.record(db, actor, f"{self.name}.delete", self.name, row.id, {})
        return row

    def mark(self, db: Session, actor: Actor, id: int, on: bool) -> Useful:
        """Say that another's text is useful, or take that back."""
        reader = actor.require("reader")
        row = self.get(db, actor, id)
        if on and is_author(actor, row):
            raise InvalidError(f"this is your own {self.name}: others say whether it is useful")
        if on and row.state != "visible":
            raise ConflictError(f"the {self.name} is not shown any more")
        if upserts.switch(db, self.marks, {"text_id": row.id, "user_id": reader}, on):
            action = f"{self.name}.{'mark' if on else 'unmark'}"
            audit.record(db, actor, action, self.name, row.id, {})
        return self.useful(db, actor, id)

    def useful(self, db: Session, actor: Actor, id: int) -> Useful:
        """Return how many readers find a text useful that the actor may read."""
        row = self.get(db, actor, id)
        return useful(db, actor, self.marks, [row.id]).get(row.id, Useful())

    def versions(self, db: Session, actor: Actor, id: int) -> Sequence[State]:
        """Return all versions of a text that the actor may read, the first first."""
        key = {f"{self.name}_id": self.get(db, actor, id).id}
        statement = select(self.version).filter_by(**key).order_by(self.version.revision)
        return db.scalars(statement).all()

    def values(self, row: Row | State) -> dict[str, Any]:
        """Return what a text, or a version of it, says."""
        return {name: getattr(row, name) for name in self.draft.parts}

    def change(
        self, db: Session, actor: Actor, row: Row, values: dict[str, Any], action: str
    ) -> Row:
        """Write a new state of a text."""
        for name, value in values.items():
            setattr(row, name, value)
        row.revision += 1
        row.updated_at = now()
        self.keep(db, row)
        detail = {"revision": row.revision}
        audit.record(db, actor, f"{self.name}.{action}", self.name, row.id, detail)
        return row

    def keep(self, db: Session, row: Row) -> None:
        """Keep the present state of a text as a version."""
        key = {f"{self.name}_id": row.id, "revision": row.revision}
        db.add(self.version(**key, **self.values(row)))
        self.stored(db, row)
        db.flush()

    def _readable(self, actor: Actor, row: Row | None) -> Row:
        """Refuse, in the same words, what is not there and what is not for this reader."""
        if row is None or not may_read(actor, row):
            raise NotFoundError(f"there is no such {self.name}, or it is not open to you")
        return row

    def _require_author(self, actor: Actor, row: Row) -> None:
        actor.require("reader")
        if not is_author(actor, row):
            raise ForbiddenError(f"only its author may change a {self.name}")
