"""Discussion of a paper: notes, caveats, pointers to replications and questions, with answers.

Deleting leaves a comment's place, so that answers keep theirs; its text is then its author's only.
Claims that a comment mentions (``#table-1``) are stored with it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import ConflictError, InvalidError
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.opinions.tables import (
    COMMENT_KINDS,
    Comment,
    CommentMark,
    CommentMention,
    CommentVersion,
)
from exactformer.studio.opinions.texts import Draft, TextKind
from exactformer.studio.security.actor import Actor
from exactformer.studio.storage import audit
from exactformer.studio.web import markup
from exactformer.studio.web.markup import prose
from exactformer.studio.web.types import Clean

LIMIT = 10_000
"""Characters of a comment."""


class CommentDraft(Draft):
    """A comment in markdown."""

    parts = ("body", "kind")

    body: Clean
    kind: Clean = "note"

    def checked(self) -> dict[str, Any]:
        """Return it ready to store."""
        if self.kind not in COMMENT_KINDS:
            raise InvalidError(f"a comment is one of {', '.join(COMMENT_KINDS)}, not {self.kind!r}")
        return {"body": prose("the comment", self.body, LIMIT, required=True), "kind": self.kind}


def _note_mentions(db: Session, comment: Comment) -> None:
    """Store the claims that a comment names, and tell readers whom only its new text names."""
    db.execute(delete(CommentMention).where(CommentMention.comment_id == comment.id))
    anchors = markup.mentions(comment.body).anchors
    named = select(Claim.id).where(Claim.paper_id == comment.paper_id, Claim.anchor.in_(anchors))
    for claim_id in db.scalars(named).all() if anchors else ():
        db.add(CommentMention(comment_id=comment.id, claim_id=claim_id))
    before = db.get(CommentVersion, (comment.id, comment.revision - 1))
    if before is not None and comment.state == "visible":
        notices.comment_edited(db, comment, before.body)


COMMENTS = TextKind("comment", Comment, CommentVersion, CommentMark, CommentDraft, _note_mentions)
get, edit, remove, versions = COMMENTS.get, COMMENTS.edit, COMMENTS.remove, COMMENTS.versions


def write(
    db: Session, actor: Actor, paper: Paper, draft: CommentDraft, parent_id: int | None = None
) -> Comment:
    """Write a comment on ``paper``, or an answer to the comment ``parent_id``."""
    author_id = actor.require("reader")
    values = draft.checked()
    if parent_id is not None:
        parent = get(db, actor, parent_id)
        if parent.paper_id != paper.id:
            raise InvalidError("an answer belongs to the same paper as what it answers")
        if parent.state != "visible":
            raise ConflictError("what you answer was taken away meanwhile")
    comment = Comment(paper_id=paper.id, author_id=author_id, parent_id=parent_id, **values)
    db.add(comment)
    db.flush()
    COMMENTS.keep(db, comment)
    notices.comment_written(db, comment)
    detail = {"paper": paper.slug, "kind": comment.kind}
    audit.record(db, actor, "comment.create", "comment", comment.id, detail)
    db.refresh(comment, ["author"])
    return comment


def editable(db: Session, actor: Actor, comment_id: int) -> Comment:
    """Return one of the actor's own comments, to be edited."""
    comment = COMMENTS.own(db, actor, comment_id)
    if comment.state == "deleted":
        raise ConflictError("the comment was deleted")
    return comment
