"""Reports of readers, and what moderators decide.

A decision is about the review or comment, so it settles every open report on it: upheld hides the
text from everybody but its author and curators, dismissed leaves it. Either can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.opinions.comments import COMMENTS
from exactformer.studio.opinions.reviews import REVIEWS
from exactformer.studio.opinions.tables import Flag, Review
from exactformer.studio.opinions.texts import Opinion, TextKind
from exactformer.studio.opinions.views import CommentView, ReviewView, show_comments, show_reviews
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import Slice
from exactformer.studio.web.markup import bounded

LIMIT = 1_000
"""Characters of a report's reason and of a decision's note."""

KINDS: dict[str, TextKind[Any, Any]] = {kind.name: kind for kind in (REVIEWS, COMMENTS)}
"""What a report can be about."""

STATES = ("open", "upheld", "dismissed")
Decision = Literal["upheld", "dismissed", "open"]


@dataclass(frozen=True)
class Case:
    """A review or comment with the reports on it that are in one state."""

    kind: str
    subject_id: int
    paper: Paper
    opinion: ReviewView | CommentView | None
    """Nothing, where its author has deleted it meanwhile."""
    flags: tuple[Flag, ...]

    @property
    def flag(self) -> Flag:
        """The first report: decisions name it."""
        return self.flags[0]


def report(db: Session, actor: Actor, kind: str, subject_id: int, reason: str) -> Flag:
    """Ask moderators to look at a review or a comment."""
    reporter_id = actor.require("reader")
    reason = bounded("the reason", reason, LIMIT, required=True)
    subject = readable_subject(db, actor, kind, subject_id)
    if subject.author_id == reporter_id:
        raise InvalidError("this is your own: edit or delete it instead of reporting it")
    if subject.state != "visible":
        raise ConflictError("this is not shown any more")
    same = select(Flag.id).filter_by(
        subject_kind=kind, subject_id=subject_id, reporter_id=reporter_id, state="open"
    )
    if db.scalar(same) is not None:
        raise ConflictError("you have reported this already; a moderator will look at it")
    flag = Flag(subject_kind=kind, subject_id=subject_id, reporter_id=reporter_id, reason=reason)
    db.add(flag)
    db.flush()
    audit.record(db, actor, "flag.create", kind, subject_id, {"flag": flag.id})
    return flag


def readable_subject(db: Session, actor: Actor, kind: str, subject_id: int) -> Opinion:
    """Return the review or comment a report is about, if the actor may read it."""
    if kind not in KINDS:
        raise InvalidError(f"a report is about one of {', '.join(KINDS)}, not {kind!r}")
    subject: Opinion = KINDS[kind].get(db, actor, subject_id)
    return subject


def get(db: Session, actor: Actor, flag_id: int) -> Flag:
    """Return a report, for moderators."""
    actor.require("curator")
    flag = db.get(Flag, flag_id)
    if flag is None:
        raise NotFoundError(f"there is no report {flag_id}")
    return flag


def decide(db: Session, actor: Actor, flag_id: int, decision: Decision, note: str = "") -> Flag:
    """Uphold or dismiss the reports on what ``flag_id`` is about, or open them again."""
    curator_id = actor.require("curator")
    note = bounded("the note", note, LIMIT)
    flag = get(db, actor, flag_id)
    subject = _subject(db, flag)
    if subject.author_id == curator_id:
        raise ForbiddenError("this is your own: another moderator has to decide")
    if decision == flag.state:
        raise ConflictError(f"this report is {decision} already")
    if decision != "open" and flag.state != "open":
        raise ConflictError(f"this report was {flag.state} meanwhile; undo that first")
    settled = [other for other in _flags(db, flag) if other.state == flag.state]
    for other in settled:
        other.state, other.note = decision, note
        other.decided_by_id = None if decision == "open" else curator_id
        other.decided_at = None if decision == "open" else now()
    db.flush()
    was_hidden = subject.state == "hidden"
    if subject.state != "deleted":
        upheld = any(other.state == "upheld" for other in _flags(db, flag))
        subject.state = "hidden" if upheld else "visible"
    _tell(db, actor, subject, was_hidden, decision, settled)
    audit.record(
        db,
        actor,
        {"upheld": "flag.uphold", "dismissed": "flag.dismiss", "open": "flag.undo"}[decision],
        flag.subject_kind,
        flag.subject_id,
        {"flags": [other.id for other in settled]},
    )
    return flag


def _tell(
    db: Session,
    actor: Actor,
    subject: Opinion,
    was_hidden: bool,
    decision: Decision,
    settled: list[Flag],
) -> None:
    """Tell the author what became of her text, and reporters what became of their reports."""
    if subject.state == "deleted":
        return
    if decision == "upheld":
        notices.forget(db, subject)
        notices.decided(db, actor, "hidden", [subject.author_id], about=subject)
    elif was_hidden and subject.state == "visible":
        notices.decided(db, actor, "shown", [subject.author_id], about=subject)
    if decision != "open":
        reporters = {flag.reporter_id for flag in settled}
        notices.decided(db, actor, decision, reporters, about=subject)


def queue(
    db: Session, actor: Actor, state: str = "open", limit: int = 20, offset: int = 0
) -> Slice[Case]:
    """Return what reports in ``state`` are about: waiting ones the oldest first."""
    actor.require("curator")
    if state not in STATES:
        raise InvalidError(f"reports are {', '.join(STATES)}, not {state!r}")
    first = func.min(Flag.id)
    subjects = (
        select(Flag.subject_kind, Flag.subject_id)
        .where(Flag.state == state)
        .group_by(Flag.subject_kind, Flag.subject_id)
        .order_by(first if state == "open" else first.desc())
    )
    total = db.scalar(select(func.count()).select_from(subjects.order_by(None).subquery())) or 0
    found = db.execute(subjects.limit(limit).offset(offset)).all()
    cases = tuple(_case(db, actor, kind, subject_id, state) for kind, subject_id in found)
    return Slice(cases, total, limit, offset)


def waiting(db: Session) -> int:
    """Return how many reports wait for a decision."""
    return db.scalar(select(func.count()).select_from(Flag).where(Flag.state == "open")) or 0


def _case(db: Session, actor: Actor, kind: str, subject_id: int, state: str) -> Case:
    statement = select(Flag).filter_by(subject_kind=kind, subject_id=subject_id, state=state)
    both = selectinload(Flag.reporter), selectinload(Flag.decided_by)
    flags = tuple(db.scalars(statement.options(*both).order_by(Flag.id)))
    subject = _subject(db, flags[0])
    paper = subject.paper
    shown: tuple[ReviewView | CommentView, ...] = ()
    if subject.state != "deleted":
        if isinstance(subject, Review):
            shown = show_reviews(db, actor, paper, [subject])
        else:
            shown = show_comments(db, actor, paper, [subject])
    return Case(kind, subject_id, paper, shown[0] if shown else None, flags)


def _subject(db: Session, flag: Flag) -> Opinion:
    table = KINDS[flag.subject_kind].row
    subject: Opinion | None = db.get(table, flag.subject_id, options=[selectinload(table.author)])
    if subject is None:
        raise NotFoundError("what this report is about is not there any more")
    return subject


def _flags(db: Session, flag: Flag) -> list[Flag]:
    same = select(Flag).filter_by(subject_kind=flag.subject_kind, subject_id=flag.subject_id)
    return list(db.scalars(same.order_by(Flag.id)))
