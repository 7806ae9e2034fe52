"""Reviews: one for each reader and paper, every version kept, no edit lost."""

from __future__ import annotations

import pytest

from exactformer.studio.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LoginNeededError,
    NotFoundError,
    TooLargeError,
)
from exactformer.studio.opinions import moderation, reviews
from exactformer.studio.opinions.reviews import ReviewDraft
from exactformer.studio.opinions.tables import Review, ReviewVersion
from exactformer.studio.security.actor import VISITOR

FIRST = ReviewDraft(
    summary="A clean construction.",
    strengths="Exact.",
    concerns="Width.",
    questions="Why a ball?",
    conflict="None.",
    confidence=4,
)
SECOND = FIRST.model_copy(update={"summary": "A very clean construction.", "confidence": 5})


def texts(desk, review):
    return [version.summary for version in reviews.versions(desk.db, desk.ada, review.id)]


def test_a_review_keeps_what_was_written(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    assert reviews.draft_of(review) == FIRST
    assert (review.revision, review.state, review.author.handle) == (1, "visible", "ada")
    assert texts(desk, review) == [FIRST.summary]
    assert desk.actions() == ["review.create"]


def test_a_second_review_by_the_same_reader_is_refused_and_given_back(desk):
    reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    with pytest.raises(ConflictError) as refused:
        reviews.write(desk.db, desk.ada, desk.paper, SECOND)
    assert refused.value.draft == SECOND
    assert reviews.draft_of(refused.value.current) == FIRST
    assert (desk.count(Review), desk.count(ReviewVersion)) == (1, 1)
    reviews.write(desk.db, desk.bob, desk.paper, SECOND)
    reviews.write(desk.db, desk.ada, desk.other_paper, SECOND)


def test_an_edit_adds_a_version(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.edit(desk.db, desk.ada, review.id, SECOND, 1)
    assert (review.revision, review.confidence) == (2, 5)
    assert texts(desk, review) == [FIRST.summary, SECOND.summary]
    assert desk.actions() == ["review.create", "review.edit"]


def test_an_edit_that_changes_nothing_adds_nothing(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.edit(desk.db, desk.ada, review.id, FIRST, 1)
    assert (review.revision, len(texts(desk, review))) == (1, 1)


def test_an_edit_from_an_old_revision_loses_neither_text(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.edit(desk.db, desk.ada, review.id, SECOND, 1)
    late = FIRST.model_copy(update={"concerns": "Also depth."})
    with pytest.raises(ConflictError, match=r"version 2.*started from 1") as refused:
        reviews.edit(desk.db, desk.ada, review.id, late, 1)
    assert refused.value.draft == late
    assert reviews.draft_of(refused.value.current) == SECOND
    assert texts(desk, review) == [FIRST.summary, SECOND.summary]


def test_nobody_else_may_change_a_review(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    for stranger in (desk.bob, desk.curator, desk.admin):
        with pytest.raises(ForbiddenError):
            reviews.edit(desk.db, stranger, review.id, SECOND, 1)
        with pytest.raises(ForbiddenError):
            reviews.remove(desk.db, stranger, review.id)
    for act in (
        lambda: reviews.write(desk.db, VISITOR, desk.paper, SECOND),
        lambda: reviews.edit(desk.db, VISITOR, review.id, SECOND, 1),
        lambda: reviews.remove(desk.db, VISITOR, review.id),
    ):
        with pytest.raises(LoginNeededError):
            act()
    assert reviews.draft_of(review) == FIRST


def test_a_deleted_review_is_its_authors_only(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.remove(desk.db, desk.ada, review.id)
    assert reviews.get(desk.db, desk.ada, review.id).summary == FIRST.summary
    for stranger in (VISITOR, desk.bob, desk.curator, desk.admin):
        with pytest.raises(NotFoundError):
            reviews.get(desk.db, stranger, review.id)
        with pytest.raises(NotFoundError):
            reviews.versions(desk.db, stranger, review.id)
        assert reviews.listing(desk.db, stranger, desk.paper, 10).items == ()
    with pytest.raises(ConflictError):
        reviews.edit(desk.db, desk.ada, review.id, SECOND, 1)


def test_a_deleted_review_is_taken_up_again_with_its_history(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.remove(desk.db, desk.ada, review.id)
    again = reviews.write(desk.db, desk.ada, desk.paper, SECOND)
    assert (again.id, again.state, again.revision) == (review.id, "visible", 2)
    assert desk.actions() == ["review.create", "review.delete", "review.restore"]


def test_deleting_and_writing_anew_does_not_unhide(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    flag = moderation.report(desk.db, desk.bob, "review", review.id, "rude")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    reviews.edit(desk.db, desk.ada, review.id, SECOND, 1)
    assert review.state == "hidden"
    reviews.remove(desk.db, desk.ada, review.id)
    reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    assert review.state == "hidden"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"summary": " \r\n"}, InvalidError),
        ({"summary": "a\0b"}, InvalidError),
        ({"summary": "\ud800"}, InvalidError),
        ({"confidence": 0}, InvalidError),
        ({"confidence": 6}, InvalidError),
        ({"concerns": "x" * 20_001}, TooLargeError),
        ({"conflict": "x" * 2_001}, TooLargeError),
        ({"questions": "$$a$$\n" * 101}, TooLargeError),
    ],
)
def test_what_cannot_be_stored_is_refused(desk, change, error):
    with pytest.raises(error):
        reviews.write(desk.db, desk.ada, desk.paper, FIRST.model_copy(update=change))
    assert desk.count(Review) == 0


def test_line_ends_of_browsers_make_no_new_version(desk):
    review = reviews.write(desk.db, desk.ada, desk.paper, ReviewDraft(summary="one\n\ntwo"))
    reviews.edit(desk.db, desk.ada, review.id, ReviewDraft(summary="one\r\n\r\ntwo "), 1)
    assert review.revision == 1


def test_ones_own_review_comes_first(desk):
    reviews.write(desk.db, desk.ada, desk.paper, FIRST)
    reviews.write(desk.db, desk.bob, desk.paper, SECOND)
    order = [each.author.handle for each in reviews.listing(desk.db, desk.ada, desk.paper, 9).items]
    assert order == ["ada", "bob"]
    order = [each.author.handle for each in reviews.listing(desk.db, VISITOR, desk.paper, 9).items]
    assert order == ["bob", "ada"]
    assert reviews.listing(desk.db, VISITOR, desk.paper, 1, 1).total == 2
