"""Telling readers what concerns them: replies, mentions, what they follow, and decisions.

Nobody is told of her own deeds, and of one text only once. A text that is deleted or hidden takes the
notices about it along, so that they never lead to what one may not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices.tables import Follow, Notice
from exactformer.studio.opinions.tables import Comment, Review
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.base import now
from exactformer.studio.storage.slices import Slice, cut
from exactformer.studio.web import markup

MOST_MENTIONED = 20
"""Readers whom one text may call; further names are links, but nobody is told."""

KEPT = timedelta(days=90)
"""How long a notice is kept after it was read."""

_DECISIONS = {
    "hidden": "A moderator has hidden your {thing} on",
    "shown": "Your {thing} is shown again on",
    "upheld": "Your report was upheld: a {thing} was hidden on",
    "dismissed": "Your report was looked at, and the {thing} stays, on",
    "accepted": "Your proposal was accepted:",
    "declined": "Your proposal was declined:",
}
_DEEDS = {
    "answer": "replied to your comment on",
    "mention": "mentioned you on",
    "comment": "commented on",
    "review": "reviewed",
}


@dataclass(frozen=True)
class News:
    """A notice as its reader sees it; ``who`` is empty where a decision is told."""

    id: int
    kind: str
    who: str
    what: str
    title: str
    href: str
    at: datetime
    is_read: bool


def comment_written(db: Session, comment: Comment) -> None:
    """Tell the author who is answered, readers who are mentioned, and those who follow."""
    named = markup.mentions(comment.body)
    told = dict.fromkeys(_followers(db, comment.paper_id, named.anchors), "comment")
    told |= dict.fromkeys(_accounts(db, named.handles), "mention")
    if comment.parent_id is not None:
        answered = select(Comment.author_id).where(Comment.id == comment.parent_id)
        told[db.scalars(answered).one()] = "answer"
    _tell(db, told, comment.author_id, paper_id=comment.paper_id, comment_id=comment.id)


def comment_edited(db: Session, comment: Comment, before: str) -> None:
    """Tell readers whom only the new text mentions."""
    named = markup.mentions(comment.body).handles - markup.mentions(before).handles
    told = dict.fromkeys(_accounts(db, named), "mention")
    _tell(db, told, comment.author_id, paper_id=comment.paper_id, comment_id=comment.id)


def review_written(db: Session, review: Review) -> None:
    """Tell those who follow the paper."""
    told = dict.fromkeys(_followers(db, review.paper_id, ()), "review")
    _tell(db, told, review.author_id, paper_id=review.paper_id, review_id=review.id)


def decided(
    db: Session,
    actor: Actor,
    word: str,
    user_ids: Iterable[int],
    *,
    paper_id: int | None = None,
    about: Review | Comment | None = None,
    title: str = "",
) -> None:
    """Tell readers of a decision of ``actor`` about their text, report or proposal."""
    place: dict[str, Any] = {"paper_id": paper_id, "word": word, "title": title[:500]}
    if about is not None:
        name = "review_id" if isinstance(about, Review) else "comment_id"
        place |= {"paper_id": about.paper_id, name: about.id}
    _tell(db, dict.fromkeys(user_ids, "decision"), actor.id, **place)


def forget(db: Session, text: Review | Comment) -> None:
    """Take back what was told about a text that is not shown any more; decisions stay."""
    column = Notice.review_id if isinstance(text, Review) else Notice.comment_id
    db.execute(delete(Notice).where(column == text.id, Notice.kind != "decision"))


def listing(db: Session, actor: Actor, limit: int, offset: int = 0) -> Slice[News]:
    """Return what the actor was told, the newest first."""
    reader = actor.require("reader")
    statement = select(Notice).where(Notice.user_id == reader)
    both = selectinload(Notice.by), selectinload(Notice.paper)
    found = cut(db, statement.order_by(Notice.id.desc()), limit, offset, *both)
    return Slice(tuple(map(_news, found.items)), found.total, limit, offset)


def mark_read(db: Session, actor: Actor, up_to: int) -> None:
    """Mark notices up to this one as read, and forget old ones."""
    reader = actor.require("reader")
    own = Notice.user_id == reader
    new = update(Notice).where(own, Notice.id <= up_to, Notice.read_at.is_(None))
    db.execute(new.values(read_at=now()))
    db.execute(delete(Notice).where(own, Notice.read_at < now() - KEPT))


def followed(db: Session, actor: Actor, paper: Paper) -> frozenset[str]:
    """Return what the actor follows of ``paper``: anchors of claims, and "" for all of it."""
    reader = actor.require("reader")
    mine = select(Follow.anchor).where(Follow.paper_id == paper.id, Follow.user_id == reader)
    return frozenset(db.scalars(mine))


def follow(db: Session, actor: Actor, paper: Paper, wanted: frozenset[str]) -> frozenset[str]:
    """Follow exactly these claims of ``paper`` ("" is all of it), and return them."""
    reader = actor.require("reader")
    known = {claim.anchor for claim in paper.claims} | {""}
    if unknown := sorted(wanted - known):
        raise InvalidError(f"This paper has no claim {unknown[0][:60]!r}.")
    mine = Follow.paper_id == paper.id, Follow.user_id == reader
    present = followed(db, actor, paper)
    db.execute(delete(Follow).where(*mine, Follow.anchor.in_(present - wanted)))
    db.add_all(
        Follow(paper_id=paper.id, user_id=reader, anchor=anchor) for anchor in wanted - present
    )
    db.flush()
    return wanted


def following(
    db: Session, actor: Actor, limit: int, offset: int = 0
) -> Slice[tuple[str, str, str]]:
    """Return slug, title and anchor of all that the actor follows, by title."""
    reader = actor.require("reader")
    mine = select(Follow).where(Follow.user_id == reader)
    total = db.scalar(select(func.count()).select_from(mine.subquery())) or 0
    rows = db.execute(
        select(Paper.slug, Paper.title, Follow.anchor)
        .join(Follow, Follow.paper_id == Paper.id)
        .where(Follow.user_id == reader)
        .order_by(Paper.title, Follow.anchor)
        .limit(limit)
        .offset(offset)
    )
    return Slice(tuple((slug, title, anchor) for slug, title, anchor in rows), total, limit, offset)


def _followers(db: Session, paper_id: int, anchors: Iterable[str]) -> list[int]:
    wanted = ("", *anchors)
    mine = select(Follow.user_id).where(Follow.paper_id == paper_id, Follow.anchor.in_(wanted))
    return list(db.scalars(mine.distinct()))


def _accounts(db: Session, handles: Iterable[str]) -> list[int]:
    some = sorted(handles)[:MOST_MENTIONED]
    named = select(User.id).where(User.handle.in_(some), User.disabled.is_(False))
    return list(db.scalars(named)) if some else []


def _tell(db: Session, told: Mapping[int, str], by: int | None, **place: Any) -> None:
    """Write a notice for everybody but the one who acts."""
    db.add_all(
        Notice(user_id=user, kind=kind, by_id=by, **place)
        for user, kind in sorted(told.items())
        if user != by
    )
    db.flush()


def _news(notice: Notice) -> News:
    thing = "review" if notice.review_id else "comment"
    if notice.kind == "decision":
        who, what = "", _DECISIONS[notice.word].format(thing=thing)
    else:
        who, what = notice.by.name if notice.by else "Somebody", _DEEDS[notice.kind]
    return News(
        notice.id,
        notice.kind,
        who,
        what,
        notice.paper.title if notice.paper else notice.title,
        _place(notice),
        notice.created_at,
        notice.read_at is not None,
    )


def _place(notice: Notice) -> str:
    """Return where a notice leads. Reporters are not led to what was hidden on their report."""
    if notice.comment_id and notice.word != "upheld":
        return f"/comments/{notice.comment_id}"
    if notice.review_id and notice.word != "upheld":
        return f"/reviews/{notice.review_id}"
    return f"/papers/{notice.paper.slug}" if notice.paper else "/proposals"
