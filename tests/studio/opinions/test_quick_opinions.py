"""Votes, reactions and saves: set, repeated, taken back, counted."""

from __future__ import annotations

import pytest

from exactformer.studio.errors import InvalidError, LoginNeededError
from exactformer.studio.opinions import quick
from exactformer.studio.opinions.quick import Tally
from exactformer.studio.opinions.tables import REACTIONS, Reaction, Save, Vote
from exactformer.studio.security.actor import VISITOR


def test_a_vote_is_changed_by_the_next_and_withdrawn_by_none(desk):
    assert quick.vote(desk.db, desk.ada, desk.paper, 1) == Tally(1, 0, 1)
    assert quick.vote(desk.db, desk.bob, desk.paper, 1) == Tally(2, 0, 1)
    assert quick.vote(desk.db, desk.ada, desk.paper, -1) == Tally(1, 1, -1)
    assert quick.vote(desk.db, desk.ada, desk.paper, 0) == Tally(1, 0, 0)
    assert desk.count(Vote) == 1


def test_the_same_vote_again_changes_and_audits_nothing(desk):
    for _ in range(3):
        quick.vote(desk.db, desk.ada, desk.paper, 1)
    assert desk.count(Vote) == 1
    assert desk.actions() == ["vote.cast"]


def test_votes_of_other_papers_do_not_count(desk):
    quick.vote(desk.db, desk.ada, desk.other_paper, 1)
    assert quick.votes(desk.db, VISITOR, desk.paper) == Tally(0, 0, 0)


@pytest.mark.parametrize("value", [2, -2, 100])
def test_a_vote_that_is_none_is_refused(desk, value):
    with pytest.raises(InvalidError, match=str(value)):
        quick.vote(desk.db, desk.ada, desk.paper, value)


def test_a_reader_may_react_in_several_ways(desk):
    quick.react(desk.db, desk.ada, desk.paper, "useful", True)
    quick.react(desk.db, desk.ada, desk.paper, "useful", True)
    quick.react(desk.db, desk.bob, desk.paper, "useful", True)
    found = quick.react(desk.db, desk.ada, desk.paper, "needs-replication", True)
    shown = {each.kind: (each.count, each.mine) for each in found if each.count}
    assert shown == {"useful": (2, True), "needs-replication": (1, True)}
    assert [each.kind for each in found] == list(REACTIONS)
    assert desk.actions() == ["reaction.show"] * 3


def test_a_reaction_is_taken_back(desk):
    quick.react(desk.db, desk.ada, desk.paper, "unclear", True)
    quick.react(desk.db, desk.bob, desk.paper, "unclear", True)
    for _ in range(2):
        quick.react(desk.db, desk.ada, desk.paper, "unclear", False)
    assert desk.count(Reaction) == 1
    assert desk.actions() == ["reaction.show"] * 2 + ["reaction.withdraw"]


def test_an_unknown_reaction_is_refused(desk):
    with pytest.raises(InvalidError, match="'boring'"):
        quick.react(desk.db, desk.ada, desk.paper, "boring", True)


def test_saving_twice_is_saving_once(desk):
    for _ in range(2):
        assert quick.save(desk.db, desk.ada, desk.paper, True) == quick.SaveCount(1, True)
    assert quick.saves(desk.db, desk.bob, desk.paper) == quick.SaveCount(1, False)
    for _ in range(2):
        assert quick.save(desk.db, desk.ada, desk.paper, False) == quick.SaveCount(0, False)
    assert desk.count(Save) == 0
    assert desk.actions() == ["save.keep", "save.forget"]


def test_saved_papers_are_listed_to_their_reader_only(desk):
    quick.save(desk.db, desk.ada, desk.paper, True)
    quick.save(desk.db, desk.ada, desk.other_paper, True)
    assert [paper.slug for paper in quick.saved(desk.db, desk.ada, 10).items] == ["yun", "fang"]
    assert quick.saved(desk.db, desk.ada, 1).total == 2
    assert quick.saved(desk.db, desk.bob, 10).items == ()


@pytest.mark.parametrize(
    "act",
    [
        lambda desk: quick.vote(desk.db, VISITOR, desk.paper, 1),
        lambda desk: quick.react(desk.db, VISITOR, desk.paper, "useful", True),
        lambda desk: quick.save(desk.db, VISITOR, desk.paper, True),
        lambda desk: quick.saved(desk.db, VISITOR, 10),
    ],
)
def test_visitors_are_asked_to_log_in(desk, act):
    with pytest.raises(LoginNeededError):
        act(desk)
    assert desk.actions() == []
