"""Discussion of a paper: notes, caveats, pointers to replications and questions, with answers.

Deleting leaves a comment's place, so that answers keep theirs; its text is then its author's only.
Claims that a comment mentions (``#table-1``) are stored with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session, selectinload

from exactformer.studio.errors import ConflictError, InvalidError
from exactformer.studio.opinions.conflicts import ChangedMeanwhileError
from exactformer.studio.opinions.tables import COMMENT_KINDS
from exactformer.studio.opinions.visibility import require_author, require_readable
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.storage.base import now
from exactformer.studio.storage.tables import Claim, Comment, CommentMention, CommentVersion, Paper
from exactformer.studio.web import markup
from exactformer.studio.web.text_checks import prose

LIMIT = 10_000
"""Characters of a comment."""


@dataclass(frozen=True)
class CommentDraft:
    """What a reader writes."""

    body: str
    kind: str = "note"

    def checked(self) -> CommentDraft:
        """Return it ready to store."""
        if self.kind not in COMMENT_KINDS:
            raise InvalidError(f"a comment is one of {', '.join(COMMENT_KINDS)}, not {self.kind!r}")
        return CommentDraft(prose("the comment", self.body, LIMIT, required=True), self.kind)


class CommentConflictError(ChangedMeanwhileError[Comment, CommentDraft]):
    """The comment is not what the draft started from."""


def write(
    db: Session, actor: Actor, paper: Paper, draft: CommentDraft, parent_id: int | None = None
) -> Comment:
    """Write a comment on ``paper``, or an answer to the comment ``parent_id``."""
    author_id = actor.require("reader")
    draft = draft.checked()
    if parent_id is not None:
        parent = get(db, actor, parent_id)
        if parent.paper_id != paper.id:
            raise InvalidError("an answer belongs to the same paper as what it answers")
        if parent.state != "visible":
            raise ConflictError("what you answer was taken away meanwhile")
    comment = Comment(
        paper_id=paper.id,
        author_id=author_id,
        parent_id=parent_id,
        body=draft.body,
        kind=draft.kind,
    )
    db.add(comment)
    db.flush()
    _keep_version(db, comment)
    _note_mentions(db, comment)
    audit.record(
        db,
        actor,
        "comment.create",
        "comment",
        comment.id,
        {"paper": paper.slug, "kind": draft.kind},
    )
    db.refresh(comment, ["author"])
    return comment


def edit(db: Session, actor: Actor, comment_id: int, draft: CommentDraft, revision: int) -> Comment:
    """Change a comment from the state ``revision``."""
    actor.require("reader")
    statement = select(Comment).where(Comment.id == comment_id).with_for_update()
    comment = db.scalar(statement.execution_options(populate_existing=True))
    require_readable(actor, comment, "comment")
    assert comment is not None
    require_author(actor, comment, "comment")
    draft = draft.checked()
    if comment.state == "deleted":
        raise CommentConflictError("the comment was deleted", comment, draft)
    if comment.revision != revision:
        raise CommentConflictError(
            f"the comment was changed meanwhile (version {comment.revision}, yours started from "
            f"{revision}); your text was not written: bring the two together and send it again",
            comment,
            draft,
        )
    if draft == CommentDraft(comment.body, comment.kind):
        return comment
    comment.body, comment.kind = draft.body, draft.kind
    comment.revision += 1
    comment.updated_at = now()
    _keep_version(db, comment)
    _note_mentions(db, comment)
    audit.record(db, actor, "comment.edit", "comment", comment.id, {"revision": comment.revision})
    return comment


def remove(db: Session, actor: Actor, comment_id: int) -> Comment:
    """Delete the actor's own comment; its place stays."""
    actor.require("reader")
    comment = get(db, actor, comment_id)
    require_author(actor, comment, "comment")
    if comment.state != "deleted":
        comment.state = "deleted"
        audit.record(db, actor, "comment.delete", "comment", comment.id, {})
    return comment


def get(db: Session, actor: Actor, comment_id: int) -> Comment:
    """Return a comment the actor may read."""
    comment = db.get(Comment, comment_id, options=[selectinload(Comment.author)])
    require_readable(actor, comment, "comment")
    assert comment is not None
    return comment


def editable(db: Session, actor: Actor, comment_id: int) -> Comment:
    """Return one of the actor's own comments, to be edited."""
    comment = get(db, actor, comment_id)
    require_author(actor, comment, "comment")
    if comment.state == "deleted":
        raise ConflictError("the comment was deleted")
    return comment


def versions(db: Session, actor: Actor, comment_id: int) -> Sequence[CommentVersion]:
    """Return all versions of a comment the actor may read, the first first."""
    comment = get(db, actor, comment_id)
    own = select(CommentVersion).where(CommentVersion.comment_id == comment.id)
    return db.scalars(own.order_by(CommentVersion.revision)).all()


def _keep_version(db: Session, comment: Comment) -> None:
    version = CommentVersion(comment_id=comment.id, revision=comment.revision, body=comment.body)
    db.add(version)
    db.flush()


def _note_mentions(db: Session, comment: Comment) -> None:
    db.execute(delete(CommentMention).where(CommentMention.comment_id == comment.id))
    anchors = markup.mentions(comment.body).anchors
    named = select(Claim.id).where(Claim.paper_id == comment.paper_id, Claim.anchor.in_(anchors))
    for claim_id in db.scalars(named).all() if anchors else ():
        db.add(CommentMention(comment_id=comment.id, claim_id=claim_id))
    db.flush()
