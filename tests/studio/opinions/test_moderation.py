"""Reports and decisions: what is hidden, from whom, why, and how it comes back."""

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
from exactformer.studio.opinions import comments, moderation, reviews
from exactformer.studio.opinions.reviews import ReviewDraft
from exactformer.studio.opinions.views import show_reviews
from exactformer.studio.security.actor import VISITOR
from tests.studio.opinions.test_comments import say


@pytest.fixture
def review(desk):
    return reviews.write(desk.db, desk.ada, desk.paper, ReviewDraft(summary="Nonsense, all of it."))


def report(desk, review, by=None, reason="rude"):
    return moderation.report(desk.db, by or desk.bob, "review", review.id, reason)


def test_upholding_hides_from_all_but_author_and_curators(desk, review):
    flag = report(desk, review)
    moderation.decide(desk.db, desk.curator, flag.id, "upheld", "Please discuss the paper.")
    assert review.state == "hidden"
    for reader in (VISITOR, desk.bob):
        with pytest.raises(NotFoundError):
            reviews.get(desk.db, reader, review.id)
        assert show_reviews(desk.db, reader, desk.paper, [review]) == ()
    for reader in (desk.ada, desk.curator, desk.admin):
        (view,) = show_reviews(desk.db, reader, desk.paper, [review])
        assert (view.state, view.reason) == ("hidden", "Please discuss the paper.")


def test_without_a_note_the_author_reads_the_reports_reason(desk, review):
    flag = report(desk, review, reason="off topic")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    (view,) = show_reviews(desk.db, desk.ada, desk.paper, [review])
    assert view.reason == "off topic"


def test_dismissing_leaves_it(desk, review):
    flag = report(desk, review)
    moderation.decide(desk.db, desk.curator, flag.id, "dismissed")
    assert (review.state, flag.state, flag.decided_by_id) == (
        "visible",
        "dismissed",
        desk.curator.id,
    )
    report(desk, review)  # and it may be reported again


def test_a_decision_settles_every_report_and_undo_brings_them_back(desk, review):
    flags = [report(desk, review), report(desk, review, by=desk.admin)]
    moderation.decide(desk.db, desk.curator, flags[1].id, "upheld")
    assert {flag.state for flag in flags} == {"upheld"}
    moderation.decide(desk.db, desk.curator, flags[0].id, "open")
    assert {flag.state for flag in flags} == {"open"}
    assert (review.state, flags[0].decided_by_id, flags[0].decided_at) == ("visible", None, None)
    assert desk.actions()[-2:] == ["flag.uphold", "flag.undo"]


def test_a_decision_is_made_once(desk, review):
    flag = report(desk, review)
    moderation.decide(desk.db, desk.curator, flag.id, "dismissed")
    for late in ("dismissed", "upheld"):
        with pytest.raises(ConflictError):
            moderation.decide(desk.db, desk.admin, flag.id, late)
    assert review.state == "visible"


def test_nobody_reports_twice_or_her_own_or_what_is_hidden(desk, review):
    flag = report(desk, review)
    with pytest.raises(ConflictError, match="already"):
        report(desk, review)
    with pytest.raises(InvalidError, match="your own"):
        report(desk, review, by=desk.ada)
    with pytest.raises(InvalidError):
        report(desk, review, reason="  ")
    with pytest.raises(TooLargeError):
        report(desk, review, reason="x" * 1_001)
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    with pytest.raises(NotFoundError):
        report(desk, review)
    with pytest.raises(InvalidError, match="'paper'"):
        moderation.report(desk.db, desk.bob, "paper", desk.paper.id, "rude")


def test_curators_do_not_judge_what_they_wrote(desk):
    own = reviews.write(desk.db, desk.curator, desk.paper, ReviewDraft(summary="Mine."))
    flag = moderation.report(desk.db, desk.bob, "review", own.id, "rude")
    with pytest.raises(ForbiddenError):
        moderation.decide(desk.db, desk.curator, flag.id, "dismissed")
    moderation.decide(desk.db, desk.admin, flag.id, "upheld")


@pytest.mark.parametrize("who", ["ada", "bob"])
def test_readers_see_no_queue(desk, review, who):
    flag = report(desk, review)
    actor = getattr(desk, who)
    for act in (
        lambda: moderation.queue(desk.db, actor),
        lambda: moderation.get(desk.db, actor, flag.id),
        lambda: moderation.decide(desk.db, actor, flag.id, "dismissed"),
    ):
        with pytest.raises(ForbiddenError):
            act()
    with pytest.raises(LoginNeededError):
        moderation.queue(desk.db, VISITOR)
    with pytest.raises(LoginNeededError):
        report(desk, review, by=VISITOR)


def test_the_queue_shows_each_subject_once_with_its_text(desk, review):
    comment = say(desk, "go away")
    report(desk, review)
    report(desk, review, by=desk.admin)
    flag = moderation.report(desk.db, desk.bob, "comment", comment.id, "rude")
    queue = moderation.queue(desk.db, desk.curator)
    assert [(case.kind, len(case.flags)) for case in queue.items] == [("review", 2), ("comment", 1)]
    assert queue.total == 2
    assert moderation.waiting(desk.db) == 3
    assert queue.items[1].opinion.text == "go away"
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    assert moderation.queue(desk.db, desk.curator).total == 1
    (case,) = moderation.queue(desk.db, desk.curator, "upheld").items
    assert (case.kind, case.flag.id) == ("comment", flag.id)


def test_what_its_author_deleted_is_not_shown_to_moderators_either(desk):
    comment = say(desk, "go away")
    flag = moderation.report(desk.db, desk.bob, "comment", comment.id, "rude")
    comments.remove(desk.db, desk.ada, comment.id)
    (case,) = moderation.queue(desk.db, desk.curator).items
    assert case.opinion is None
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    moderation.decide(desk.db, desk.curator, flag.id, "open")
    assert comment.state == "deleted"


def test_the_audit_log_holds_no_text(desk, review):
    from exactformer.studio.storage import audit

    flag = report(desk, review)
    moderation.decide(desk.db, desk.curator, flag.id, "upheld")
    desk.db.flush()
    entries = audit.entries(desk.db, desk.curator).items
    assert "Nonsense" not in str([entry.detail for entry in entries])
