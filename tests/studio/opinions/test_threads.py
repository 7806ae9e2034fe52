"""What a page of a discussion shows, what it leaves out, and that it says how much."""

from __future__ import annotations

import pytest

from exactformer.studio.errors import InvalidError
from exactformer.studio.opinions import comments, moderation
from exactformer.studio.opinions.threads import DEPTH, ROOM, ROOTS, discussion, thread
from exactformer.studio.security.actor import VISITOR
from tests.studio.opinions.test_comments import say


def outline(threads):
    return [(each.comment.text, outline(each.answers)) for each in threads]


def seen(desk, actor=VISITOR, **filters):
    return outline(discussion(desk.db, actor, desk.paper, **filters).threads)


def size(threads):
    return sum(1 + size(each.answers) for each in threads)


def hide(desk, comment):
    flag = moderation.report(desk.db, desk.bob, "comment", comment.id, "rude")
    moderation.decide(desk.db, desk.curator, flag.id, "upheld", "be kind")


def test_answers_hang_below_what_they_answer_and_new_threads_come_first(desk):
    first, _ = say(desk, "first"), say(desk, "second")
    answer = say(desk, "answer", by=desk.bob, to=first)
    say(desk, "thanks", to=answer)
    say(desk, "other", to=first)
    assert seen(desk) == [
        ("second", []),
        ("first", [("answer", [("thanks", [])]), ("other", [])]),
    ]
    assert outline([thread(desk.db, VISITOR, desk.paper, answer)]) == [("answer", [("thanks", [])])]


def test_a_deleted_comment_keeps_its_place_while_it_is_answered(desk):
    root = say(desk, "secret")
    say(desk, "answer", by=desk.bob, to=root)
    alone = say(desk, "alone")
    comments.remove(desk.db, desk.ada, root.id)
    comments.remove(desk.db, desk.ada, alone.id)
    assert seen(desk) == [("", [("answer", [])])]
    view = discussion(desk.db, desk.bob, desk.paper).threads[0].comment
    assert (view.author, view.html, view.state) == (None, "", "deleted")


def test_a_hidden_comment_is_seen_by_its_author_and_curators(desk):
    hide(desk, say(desk, "secret"))
    assert seen(desk) == seen(desk, desk.bob) == []
    assert seen(desk, desk.ada) == seen(desk, desk.curator) == [("secret", [])]
    view = discussion(desk.db, desk.ada, desk.paper).threads[0].comment
    assert (view.reason, view.is_open) == ("be kind", False)


def test_filters_show_single_comments(desk):
    root = say(desk, "note", kind="note")
    say(desk, "why? #table-1", kind="question", to=root)
    hide(desk, say(desk, "hidden #table-1", kind="question"))
    assert seen(desk, kind="question") == [("why? #table-1", [])]
    assert seen(desk, claim="table-1") == [("why? #table-1", [])]
    assert seen(desk, desk.curator, claim="table-1", kind="question") == [
        ("hidden #table-1", []),
        ("why? #table-1", []),
    ]
    page = discussion(desk.db, VISITOR, desk.paper, kind="caveat")
    assert (page.found, page.total, page.kinds["question"]) == (0, 2, 1)
    with pytest.raises(InvalidError):
        seen(desk, kind="rant")


def test_deep_threads_are_cut_and_counted(desk):
    last = None
    for level in range(DEPTH + 4):
        last = say(desk, str(level), to=last)
    (shown,) = discussion(desk.db, VISITOR, desk.paper).threads
    assert size([shown]) == DEPTH + 1
    while shown.answers:
        (shown,) = shown.answers
    assert (shown.comment.text, shown.more) == (str(DEPTH), 3)


def test_a_page_has_room_for_so_many(desk):
    roots = [say(desk, f"root {number}") for number in range(ROOTS + 3)]
    for _ in range(ROOM):
        say(desk, "answer", to=roots[-1])
    first = discussion(desk.db, VISITOR, desk.paper)
    assert (first.found, first.pages, len(first.threads)) == (ROOTS + 3, 2, ROOTS)
    assert size(first.threads) == ROOM
    assert first.threads[0].more == ROOM - (ROOM - ROOTS)
    assert len(discussion(desk.db, VISITOR, desk.paper, page=2).threads) == 3
    assert discussion(desk.db, VISITOR, desk.paper, page=3).threads == ()


def test_discussions_of_papers_are_apart(desk):
    say(desk)
    assert discussion(desk.db, VISITOR, desk.other_paper).total == 0


def test_the_most_discussed_come_first_when_asked(desk):
    quiet, loud = say(desk, "quiet"), say(desk, "loud")
    newest = say(desk, "newest")
    say(desk, "yes", to=loud)

    def order(sort):
        found = discussion(desk.db, desk.bob, desk.paper, sort=sort)
        return [thread.comment.id for thread in found.threads]

    assert order("newest") == [newest.id, loud.id, quiet.id]
    assert order("replies") == [loud.id, newest.id, quiet.id]
