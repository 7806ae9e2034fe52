"""Comments: kinds, answers, mentions, versions, and deletion that leaves the place."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from exactformer.studio.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LoginNeededError,
    NotFoundError,
    TooLargeError,
)
from exactformer.studio.library.tables import Claim
from exactformer.studio.opinions import comments, moderation, panel
from exactformer.studio.opinions.comments import CommentDraft
from exactformer.studio.opinions.tables import Comment, CommentMention
from exactformer.studio.security.actor import VISITOR


def say(desk, body="a remark", *, by=None, kind="note", to=None):
    parent = to.id if to is not None else None
    draft = CommentDraft(body=body, kind=kind)
    return comments.write(desk.db, by or desk.ada, desk.paper, draft, parent)


def mentioned(desk, comment):
    statement = (
        select(Claim.anchor).join(CommentMention).where(CommentMention.comment_id == comment.id)
    )
    return set(desk.db.scalars(statement))


def test_a_comment_mentions_claims_the_paper_has(desk):
    comment = say(desk, "compare #table-1 with #Theorem-1 and #table-9; not `#table-1`")
    assert mentioned(desk, comment) == {"table-1", "theorem-1"}
    comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="only #theorem-1"), 1)
    assert mentioned(desk, comment) == {"theorem-1"}
    assert panel.mentions(desk.db, desk.paper) == {"theorem-1": 1}


def test_code_and_mathematics_mention_nothing(desk):
    assert mentioned(desk, say(desk, "`#table-1` and $#table-1$ and \\#table-1")) == set()


def test_hidden_comments_are_not_counted_with_a_claim(desk):
    comment = say(desk, "#table-1 is rubbish")
    flag = moderation.report(desk.db, desk.bob, "comment", comment.id, "rude")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    assert panel.mentions(desk.db, desk.paper) == {}


def test_edits_keep_every_version(desk):
    comment = say(desk, "one")
    comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="two", kind="caveat"), 1)
    comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="two", kind="caveat"), 2)
    kept = [version.body for version in comments.versions(desk.db, VISITOR, comment.id)]
    assert kept == ["one", "two"]
    assert (comment.kind, comment.revision) == ("caveat", 2)
    assert desk.actions() == ["comment.create", "comment.edit"]


def test_an_edit_from_an_old_revision_gives_the_text_back(desk):
    comment = say(desk, "one")
    comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="two"), 1)
    with pytest.raises(ConflictError) as refused:
        comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="three"), 1)
    assert refused.value.draft.body == "three"
    assert refused.value.current.body == "two"


def test_answers_belong_to_the_same_paper(desk):
    comment = say(desk)
    with pytest.raises(InvalidError, match="same paper"):
        comments.write(desk.db, desk.ada, desk.other_paper, CommentDraft(body="hm"), comment.id)
    with pytest.raises(NotFoundError):
        comments.write(desk.db, desk.ada, desk.paper, CommentDraft(body="hm"), 99)


def test_what_is_taken_away_cannot_be_answered(desk):
    comment = say(desk)
    comments.remove(desk.db, desk.ada, comment.id)
    with pytest.raises(ConflictError):
        say(desk, "answering myself", to=comment)
    with pytest.raises(NotFoundError):
        say(desk, "answering", by=desk.bob, to=comment)


def test_only_the_author_changes_a_comment(desk):
    comment = say(desk)
    for stranger in (desk.bob, desk.curator, desk.admin):
        with pytest.raises(ForbiddenError):
            comments.edit(desk.db, stranger, comment.id, CommentDraft(body="mine now"), 1)
        with pytest.raises(ForbiddenError):
            comments.remove(desk.db, stranger, comment.id)
    with pytest.raises(LoginNeededError):
        say(desk, by=VISITOR)


def test_a_deleted_comment_is_read_by_its_author_only(desk):
    comment = say(desk)
    comments.remove(desk.db, desk.ada, comment.id)
    assert comments.versions(desk.db, desk.ada, comment.id)
    for stranger in (VISITOR, desk.bob, desk.curator, desk.admin):
        with pytest.raises(NotFoundError):
            comments.get(desk.db, stranger, comment.id)
        with pytest.raises(NotFoundError):
            comments.versions(desk.db, stranger, comment.id)
    with pytest.raises(ConflictError):
        comments.edit(desk.db, desk.ada, comment.id, CommentDraft(body="again"), 1)


@pytest.mark.parametrize(
    ("draft", "error"),
    [
        (CommentDraft(body=""), InvalidError),
        (CommentDraft(body="x" * 10_001), TooLargeError),
        (CommentDraft(body="x", kind="rant"), InvalidError),
    ],
)
def test_what_cannot_be_stored_is_refused(desk, draft, error):
    with pytest.raises(error):
        comments.write(desk.db, desk.ada, desk.paper, draft)
    assert desk.count(Comment) == 0
