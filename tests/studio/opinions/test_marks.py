"""Marks of usefulness: once for each reader, never of one's own, and only of what is shown."""

from __future__ import annotations

import dataclasses

import pytest

from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import ConflictError, InvalidError, LoginNeededError, NotFoundError
from exactformer.studio.opinions import comments, moderation, reviews
from exactformer.studio.opinions.comments import COMMENTS, CommentDraft
from exactformer.studio.opinions.quick import Useful
from exactformer.studio.opinions.reviews import REVIEWS, ReviewDraft
from exactformer.studio.opinions.threads import discussion, single
from exactformer.studio.opinions.views import show_comments
from exactformer.studio.security.actor import VISITOR
from exactformer.studio.settings import Rate
from tests.studio.support.forms import send
from tests.studio.support.shelves import SLUG, add_paper
from tests.studio.support.worlds import commented

REVIEW = ReviewDraft(summary="A clean construction.")
HTMX = {"HX-Request": "true"}


def write(desk, kind, author=None):
    author = author or desk.ada
    if kind is REVIEWS:
        return reviews.write(desk.db, author, desk.paper, REVIEW)
    return comments.write(desk.db, author, desk.paper, CommentDraft(body="A remark."))


def hide(desk, kind, text):
    flag = moderation.report(desk.db, desk.bob, kind.name, text.id, "rude")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    return flag


both_kinds = pytest.mark.parametrize("kind", [REVIEWS, COMMENTS], ids=lambda kind: kind.name)


@both_kinds
def test_a_mark_counts_once_and_is_taken_back(desk, kind):
    text = write(desk, kind)
    for _ in range(2):
        assert kind.mark(desk.db, desk.bob, text.id, True) == Useful(1, True)
    assert kind.mark(desk.db, desk.curator, text.id, True) == Useful(2, True)
    assert kind.useful(desk.db, VISITOR, text.id) == Useful(2, False)
    for _ in range(2):
        assert kind.mark(desk.db, desk.bob, text.id, False) == Useful(1, False)
    assert desk.actions()[1:] == [f"{kind.name}.mark"] * 2 + [f"{kind.name}.unmark"]


@both_kinds
def test_nobody_marks_her_own_text_and_visitors_mark_nothing(desk, kind):
    text = write(desk, kind)
    with pytest.raises(InvalidError, match="your own"):
        kind.mark(desk.db, desk.ada, text.id, True)
    with pytest.raises(LoginNeededError):
        kind.mark(desk.db, VISITOR, text.id, True)
    assert desk.count(kind.marks) == 0


@both_kinds
def test_what_is_hidden_cannot_be_marked_and_has_its_marks_when_shown_again(desk, kind):
    text = write(desk, kind)
    kind.mark(desk.db, desk.curator, text.id, True)
    flag = hide(desk, kind, text)
    with pytest.raises(ConflictError, match="not shown any more"):
        kind.mark(desk.db, desk.admin, text.id, True)
    with pytest.raises(NotFoundError):
        kind.mark(desk.db, desk.bob, text.id, True)
    moderation.decide(desk.db, desk.curator, flag.id, "open")
    assert kind.useful(desk.db, VISITOR, text.id) == Useful(1)


@both_kinds
def test_a_deleted_text_loses_its_marks(desk, kind):
    text = write(desk, kind)
    kind.mark(desk.db, desk.bob, text.id, True)
    kind.remove(desk.db, desk.ada, text.id)
    assert desk.count(kind.marks) == 0
    with pytest.raises(NotFoundError):
        kind.mark(desk.db, desk.bob, text.id, True)


def test_a_review_taken_up_again_begins_without_marks(desk):
    review = write(desk, REVIEWS)
    REVIEWS.mark(desk.db, desk.bob, review.id, True)
    REVIEWS.remove(desk.db, desk.ada, review.id)
    again = write(desk, REVIEWS)
    assert again.id == review.id
    assert REVIEWS.useful(desk.db, VISITOR, again.id) == Useful(0)


@both_kinds
def test_marks_go_with_the_account_and_with_the_text(desk, kind):
    first = write(desk, kind)
    kind.mark(desk.db, desk.bob, first.id, True)
    desk.db.flush()
    desk.db.delete(desk.db.get_one(User, desk.bob.id))
    desk.db.flush()
    assert desk.count(kind.marks) == 0
    kind.mark(desk.db, desk.curator, first.id, True)
    desk.db.delete(desk.db.get_one(User, desk.ada.id))
    desk.db.flush()
    assert desk.count(kind.marks) == 0


def test_what_one_may_not_read_shows_no_count(desk):
    comment = write(desk, COMMENTS)
    COMMENTS.mark(desk.db, desk.curator, comment.id, True)
    hide(desk, COMMENTS, comment)
    (seen,) = show_comments(desk.db, VISITOR, desk.paper, [comment])
    assert seen.useful == Useful(0)


def test_the_most_useful_reviews_come_first_and_of_equals_the_newest(desk):
    first, second, third = (write(desk, REVIEWS, who) for who in (desk.ada, desk.bob, desk.curator))
    REVIEWS.mark(desk.db, desk.bob, first.id, True)

    def order(sort):
        found = reviews.listing(desk.db, VISITOR, desk.paper, 10, sort=sort)
        return [review.id for review in found.items]

    assert order("newest") == [third.id, second.id, first.id]
    assert order("useful") == [first.id, third.id, second.id]


def test_the_most_useful_comments_come_first_and_replies_break_ties(desk):
    quiet, answered, marked = (write(desk, COMMENTS) for _ in range(3))
    hidden = write(desk, COMMENTS)
    newest = write(desk, COMMENTS)
    for text in (answered, hidden):
        comments.write(desk.db, desk.bob, desk.paper, CommentDraft(body="Yes."), text.id)
    COMMENTS.mark(desk.db, desk.bob, marked.id, True)
    for reader in (desk.curator, desk.bob):
        COMMENTS.mark(desk.db, reader, hidden.id, True)
    comments.write(desk.db, desk.bob, desk.paper, CommentDraft(body="Yes."), answered.id)
    hide(desk, COMMENTS, hidden)
    found = discussion(desk.db, VISITOR, desk.paper, sort="useful")
    roots = [thread.comment.id for thread in found.threads]
    assert roots == [marked.id, answered.id, newest.id, hidden.id, quiet.id]
    alone = single(desk.db, VISITOR, desk.paper, "note", None, 3, 0, "useful")
    assert [view.id for view in alone.items] == [marked.id, answered.id, alone.items[2].id]
    assert alone.total == 7


@pytest.fixture
def comment(app, people):
    """The number of a comment of the reader's, on a paper of its own."""
    add_paper(app)
    return commented(people.reader, people.reader.client.get(f"/papers/{SLUG}"), body="A remark.")


def test_the_form_leads_back_and_htmx_gets_the_button(people, comment):
    path = f"/comments/{comment}/useful"
    answer = people.other.client.post(path, data={"on": "true"})
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/comments/{comment}#comment-{comment}"
    page = people.other.client.get(f"/comments/{comment}").text
    assert 'name="on" value="false" aria-pressed="true"' in page
    part = people.other.client.post(path, data={"on": "false"}, headers=HTMX)
    assert part.text.strip().startswith("<form")
    assert 'name="on" value="true" aria-pressed="false"' in part.text
    assert "<b>" not in part.text


def test_authors_and_visitors_see_the_count_and_no_button(people, comment):
    send(people.other, f"/comments/{comment}", f"/comments/{comment}/useful", on=True)
    for person in (people.reader, people.visitor):
        page = person.client.get(f"/papers/{SLUG}").text
        assert "Useful to 1 reader" in page
        assert f"useful-comment-{comment}" not in page


def test_marks_need_the_token_and_have_a_rate(app, people, comment):
    path = f"/comments/{comment}/useful"
    forged = people.other.client.post(path, data={"on": "true"}, headers={"X-CSRF-Token": "x"})
    assert forged.status_code == 403
    app.state.settings = dataclasses.replace(app.state.settings, writing_rate=Rate(2, 60))
    sent = [people.other.client.post(path, data={"on": "true"}).status_code for _ in range(3)]
    assert sent == [303, 303, 429]
