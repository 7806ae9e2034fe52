"""Who is told of what: once, never of oneself, and nothing of what one may not read."""

from __future__ import annotations

import pytest

from exactformer.studio.errors import InvalidError, LoginNeededError
from exactformer.studio.notices import service
from exactformer.studio.notices.tables import Notice
from exactformer.studio.opinions import comments, moderation, reviews
from exactformer.studio.opinions.comments import CommentDraft
from exactformer.studio.opinions.reviews import ReviewDraft
from exactformer.studio.security.actor import VISITOR
from tests.studio.opinions.test_comments import say


def told(desk, reader):
    """Kinds (or words of decisions) and places of what a reader was told, the newest first."""
    found = service.listing(desk.db, reader, 100)
    return [(news.kind, news.href) for news in found.items]


def test_an_answer_tells_the_author_and_only_her(desk):
    first = say(desk, "Is it tight?", by=desk.ada)
    answer = say(desk, "Yes.", by=desk.bob, to=first)
    say(desk, "Thank you.", by=desk.ada, to=first)
    assert told(desk, desk.ada) == [("answer", f"/comments/{answer.id}")]
    assert told(desk, desk.bob) == told(desk, desk.curator) == []


def test_an_answer_that_mentions_and_is_followed_tells_once(desk):
    service.follow(desk.db, desk.ada, desk.paper, frozenset({"", "table-1"}))
    first = say(desk, "Is #table-1 right?", by=desk.ada)
    say(desk, "@ada: #table-1 is.", by=desk.bob, to=first)
    assert [kind for kind, _ in told(desk, desk.ada)] == ["answer"]


def test_a_mention_tells_and_so_does_one_added_later(desk):
    comment = say(desk, "See @bob and @nobody, and `@cleo` in code.", by=desk.ada)
    draft = CommentDraft(body="See @bob, @dora and myself, @ada.")
    comments.edit(desk.db, desk.ada, comment.id, draft, 1)
    place = [("mention", f"/comments/{comment.id}")]
    assert told(desk, desk.bob) == told(desk, desk.admin) == place
    assert told(desk, desk.ada) == told(desk, desk.curator) == []


def test_a_text_calls_a_bounded_number_of_readers(desk, monkeypatch):
    monkeypatch.setattr(service, "MOST_MENTIONED", 1)
    say(desk, "@dora @bob @cleo", by=desk.ada)
    assert desk.count(Notice) == 1


def test_followers_hear_of_what_they_follow_and_of_nothing_else(desk):
    service.follow(desk.db, desk.bob, desk.paper, frozenset({"table-1"}))
    service.follow(desk.db, desk.curator, desk.paper, frozenset({""}))
    say(desk, "About all.", by=desk.ada)
    about = say(desk, "About #table-1.", by=desk.ada)
    review = reviews.write(desk.db, desk.ada, desk.paper, ReviewDraft(summary="Good."))
    assert told(desk, desk.bob) == [("comment", f"/comments/{about.id}")]
    assert [kind for kind, _ in told(desk, desk.curator)] == ["review", "comment", "comment"]
    reviews.remove(desk.db, desk.ada, review.id)
    comments.remove(desk.db, desk.ada, about.id)
    assert told(desk, desk.bob) == []
    assert [kind for kind, _ in told(desk, desk.curator)] == ["comment"]


def test_following_is_exactly_what_was_asked(desk):
    both = frozenset({"table-1", "theorem-1"})
    service.follow(desk.db, desk.bob, desk.paper, both)
    service.follow(desk.db, desk.bob, desk.paper, frozenset({"theorem-1"}))
    assert service.followed(desk.db, desk.bob, desk.paper) == {"theorem-1"}
    assert service.following(desk.db, desk.bob, 10).items == (("fang", "Zero error", "theorem-1"),)
    assert service.followed(desk.db, desk.ada, desk.paper) == frozenset()
    with pytest.raises(InvalidError, match="no claim 'table-9'"):
        service.follow(desk.db, desk.bob, desk.paper, frozenset({"table-9"}))
    with pytest.raises(LoginNeededError):
        service.followed(desk.db, VISITOR, desk.paper)


def test_a_decision_tells_author_and_reporter_and_takes_other_notices_back(desk):
    service.follow(desk.db, desk.admin, desk.paper, frozenset({""}))
    comment = say(desk, "Nonsense, @admin.", by=desk.ada)
    flag = moderation.report(desk.db, desk.bob, "comment", comment.id, "rude")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld", "Please stay polite.")
    assert told(desk, desk.admin) == []
    (news,) = service.listing(desk.db, desk.ada, 10).items
    assert (news.who, news.what) == ("", "A moderator has hidden your comment on")
    assert told(desk, desk.bob) == [("decision", "/papers/fang")]
    moderation.decide(desk.db, desk.curator, flag.id, "open")
    moderation.decide(desk.db, desk.curator, flag.id, "dismissed")
    assert "is shown again" in service.listing(desk.db, desk.ada, 10).items[0].what
    assert "stays" in service.listing(desk.db, desk.bob, 10).items[0].what


def test_what_was_on_the_page_is_marked_and_what_came_since_stays_new(desk):
    say(desk, "@bob one", by=desk.ada)
    (seen,) = service.listing(desk.db, desk.bob, 10).items
    say(desk, "@bob two", by=desk.ada)
    say(desk, "@cleo", by=desk.ada)
    service.mark_read(desk.db, desk.bob, seen.id)
    assert [n.is_read for n in service.listing(desk.db, desk.bob, 10).items] == [False, True]
    assert [n.is_read for n in service.listing(desk.db, desk.curator, 10).items] == [False]
