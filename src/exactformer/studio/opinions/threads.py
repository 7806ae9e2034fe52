"""A discussion as a tree: which comments a page shows, and how many lie beyond.

A page shows :data:`ROOTS` threads, the newest, the most useful or the most discussed first, with
answers to :data:`DEPTH` levels, and at most :data:`ROOM` comments in all; where something is left out,
it says how many. Deleted and hidden comments keep their place while somebody's answer hangs on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.opinions.quick import rank
from exactformer.studio.opinions.tables import COMMENT_KINDS, Comment, CommentMark, CommentMention
from exactformer.studio.opinions.texts import readable
from exactformer.studio.opinions.views import CommentView, show_comments
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage.slices import Slice

ROOTS = 20
DEPTH = 5
ROOM = 200
Sort = Literal["newest", "useful", "replies"]


@dataclass(frozen=True)
class Thread:
    """A comment with the answers shown below it; ``more`` answers are not shown."""

    comment: CommentView
    answers: tuple[Thread, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class Discussion:
    """A page of a discussion. ``total`` and ``kinds`` count all visible comments of the paper."""

    threads: tuple[Thread, ...]
    total: int
    kinds: Mapping[str, int]
    kind: str | None
    claim: str | None
    found: int
    """How many threads (or, with a filter, comments) all pages have together."""
    page: int
    sort: Sort = "newest"

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.found // ROOTS))

    @property
    def is_filtered(self) -> bool:
        """Whether single comments are shown, out of their threads."""
        return self.kind is not None or self.claim is not None


def discussion(
    db: Session,
    actor: Actor,
    paper: Paper,
    *,
    kind: str | None = None,
    claim: str | None = None,
    page: int = 1,
    sort: Sort = "newest",
) -> Discussion:
    """Return a page of the discussion of ``paper``, of one kind or about one claim if asked."""
    if kind is not None and kind not in COMMENT_KINDS:
        raise InvalidError(f"a comment is one of {', '.join(COMMENT_KINDS)}, not {kind!r}")
    if kind is None and claim is None:
        tree = _read_tree(db, actor, paper)
        roots = tree.ordered(tree.children[None][::-1], sort)
        threads = tree.show(db, actor, paper, roots[(page - 1) * ROOTS : page * ROOTS])
        found = len(roots)
    else:
        matching = single(db, actor, paper, kind, claim, ROOTS, (page - 1) * ROOTS, sort)
        threads, found = tuple(map(Thread, matching.items)), matching.total
    kinds = _kinds(db, paper)
    return Discussion(threads, sum(kinds.values()), kinds, kind, claim, found, page, sort)


def thread(db: Session, actor: Actor, paper: Paper, comment: Comment) -> Thread:
    """Return one comment of ``paper`` with its answers."""
    return _read_tree(db, actor, paper).show(db, actor, paper, [comment.id])[0]


def single(
    db: Session,
    actor: Actor,
    paper: Paper,
    kind: str | None,
    claim: str | None,
    limit: int,
    offset: int,
    sort: Sort = "newest",
) -> Slice[CommentView]:
    """Return comments on ``paper`` one by one, out of their threads."""
    statement = select(Comment.id).where(Comment.paper_id == paper.id, readable(actor, Comment))
    if kind is not None:
        statement = statement.where(Comment.kind == kind)
    if claim is not None:
        about = select(CommentMention.comment_id).join(Claim, Claim.id == CommentMention.claim_id)
        about = about.where(Claim.paper_id == paper.id, Claim.anchor == claim)
        statement = statement.where(Comment.id.in_(about))
    statement = statement.order_by(Comment.created_at.desc(), Comment.id.desc())
    ids = db.scalars(statement).all()
    if sort != "newest":
        ids = _read_tree(db, actor, paper).ordered(ids, sort)
    views = _read(db, actor, paper, shown := ids[offset : offset + limit])
    return Slice(tuple(views[id] for id in shown), len(ids), limit, offset)


def _read(db: Session, actor: Actor, paper: Paper, ids: Sequence[int]) -> Mapping[int, CommentView]:
    statement = select(Comment).where(Comment.id.in_(ids)).options(selectinload(Comment.author))
    return {view.id: view for view in show_comments(db, actor, paper, db.scalars(statement).all())}


def _kinds(db: Session, paper: Paper) -> dict[str, int]:
    visible = select(Comment.kind, func.count()).where(
        Comment.paper_id == paper.id, Comment.state == "visible"
    )
    counts = dict(db.execute(visible.group_by(Comment.kind)).all())
    return {kind: counts.get(kind, 0) for kind in COMMENT_KINDS}


@dataclass(frozen=True)
class _Tree:
    """The shape of a discussion: ids only, which are read at once however long it is."""

    children: Mapping[int | None, Sequence[int]]
    sizes: Mapping[int, int]
    """How many readable comments a branch has, its root included."""
    marks: Mapping[int, int]
    """How many readers find each comment useful."""

    def ordered(self, ids: Sequence[int], sort: Sort) -> Sequence[int]:
        """Put comments, given with the newest first, into an order; equals stay as they are."""
        if sort == "useful":
            return sorted(ids, key=lambda id: (-self.marks[id], -self.sizes[id]))
        return sorted(ids, key=lambda id: -self.sizes[id]) if sort == "replies" else ids

    def show(
        self, db: Session, actor: Actor, paper: Paper, roots: Sequence[int]
    ) -> tuple[Thread, ...]:
        """Read and prepare what there is room for, level by level."""
        level, chosen = list(roots), list(roots)
        for _ in range(DEPTH):
            level = [child for parent in level for child in self.children[parent]]
            level = level[: max(0, ROOM - len(chosen))]
            chosen += level
        views = _read(db, actor, paper, chosen)
        return tuple(self._branch(root, views) for root in roots)

    def _branch(self, root: int, views: Mapping[int, CommentView]) -> Thread:
        shown = [child for child in self.children[root] if child in views]
        left = [child for child in self.children[root] if child not in views]
        answers = tuple(self._branch(child, views) for child in shown)
        return Thread(views[root], answers, sum(self.sizes[child] for child in left))


def _read_tree(db: Session, actor: Actor, paper: Paper) -> _Tree:
    """Read ids and parents of all comments; leave out branches in which nothing is readable."""
    statement = select(
        Comment.id, Comment.parent_id, readable(actor, Comment), rank(CommentMark, Comment)
    ).where(Comment.paper_id == paper.id)
    rows = db.execute(statement.order_by(Comment.created_at, Comment.id)).all()
    sizes: dict[int, int] = defaultdict(int)
    for comment_id, parent_id, is_readable, _ in sorted(rows, reverse=True, key=lambda row: row[0]):
        sizes[comment_id] += int(is_readable)  # answers have larger ids: they are counted already
        if parent_id is not None:
            sizes[parent_id] += sizes[comment_id]
    children: dict[int | None, list[int]] = defaultdict(list)
    for comment_id, parent_id, *_ in rows:
        if sizes[comment_id]:
            children[parent_id].append(comment_id)
    return _Tree(children, sizes, {row[0]: row[3] for row in rows})
