"""Collections: whose they are, who has the link, and the order of what is in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from exactformer.studio.errors import (
    ConflictError,
    InvalidError,
    LoginNeededError,
    NotFoundError,
    TooLargeError,
)
from exactformer.studio.library.tables import Paper
from exactformer.studio.opinions import collections
from exactformer.studio.opinions.tables import CollectionItem
from exactformer.studio.security.actor import VISITOR
from exactformer.studio.storage.audit import AuditEntry
from tests.examples import examples
from tests.studio.support.desks import open_desk


@pytest.fixture
def shelf(desk):
    collection = collections.create(desk.db, desk.ada, "To read", "slowly")
    for paper in (desk.paper, desk.other_paper):
        collections.add(desk.db, desk.ada, collection.id, paper)
    return collection


def slugs(collection):
    return [paper.slug for paper in collections.papers(collection)]


def test_a_collection_is_private_until_its_owner_shares_it(desk, shelf):
    assert shelf.visibility == "private"
    for stranger in (desk.bob, desk.curator, desk.admin):
        with pytest.raises(NotFoundError):
            collections.get(desk.db, stranger, shelf.id)
        assert collections.own(desk.db, stranger).items == ()
    with pytest.raises(LoginNeededError):
        collections.get(desk.db, VISITOR, shelf.id)
    with pytest.raises(NotFoundError):
        collections.shared(desk.db, shelf.token)
    collections.edit(desk.db, desk.ada, shelf.id, visibility="link")
    assert slugs(collections.shared(desk.db, shelf.token)) == ["fang", "yun"]


def test_a_new_link_withdraws_the_old(desk, shelf):
    collections.edit(desk.db, desk.ada, shelf.id, visibility="link")
    old = shelf.token
    collections.renew_link(desk.db, desk.ada, shelf.id)
    assert len(shelf.token) >= 40
    assert collections.shared(desk.db, shelf.token).id == shelf.id
    with pytest.raises(NotFoundError):
        collections.shared(desk.db, old)


def test_making_it_private_withdraws_the_link_for_good(desk, shelf):
    collections.edit(desk.db, desk.ada, shelf.id, visibility="link")
    old = shelf.token
    collections.edit(desk.db, desk.ada, shelf.id, visibility="private")
    collections.edit(desk.db, desk.ada, shelf.id, visibility="link")
    with pytest.raises(NotFoundError):
        collections.shared(desk.db, old)


def test_nobody_else_changes_a_collection_even_with_the_link(desk, shelf):
    collections.edit(desk.db, desk.ada, shelf.id, visibility="link")
    for act in (
        lambda: collections.edit(desk.db, desk.bob, shelf.id, title="mine"),
        lambda: collections.renew_link(desk.db, desk.bob, shelf.id),
        lambda: collections.remove(desk.db, desk.bob, shelf.id),
        lambda: collections.add(desk.db, desk.bob, shelf.id, desk.paper),
        lambda: collections.take_out(desk.db, desk.bob, shelf.id, desk.paper.id),
        lambda: collections.annotate(desk.db, desk.bob, shelf.id, desk.paper.id, "x"),
        lambda: collections.move(desk.db, desk.bob, shelf.id, desk.paper.id, 1),
    ):
        with pytest.raises(NotFoundError):
            act()
    assert (shelf.title, slugs(shelf)) == ("To read", ["fang", "yun"])


def test_papers_are_put_in_once_annotated_and_taken_out(desk, shelf):
    with pytest.raises(ConflictError):
        collections.add(desk.db, desk.ada, shelf.id, desk.paper)
    collections.annotate(desk.db, desk.ada, shelf.id, desk.paper.id, "first *this*")
    assert [item.note for item in shelf.items] == ["first *this*", ""]
    collections.take_out(desk.db, desk.ada, shelf.id, desk.paper.id)
    assert [(item.paper_id, item.position) for item in shelf.items] == [(desk.other_paper.id, 0)]
    with pytest.raises(NotFoundError):
        collections.annotate(desk.db, desk.ada, shelf.id, desk.paper.id, "gone")
    assert desk.count(CollectionItem) == 1


@settings(max_examples=examples(12))
@given(moves=st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 8)), max_size=8))
def test_moving_is_what_a_list_would_do(moves):
    with open_desk() as desk:
        added = [Paper(slug=f"p{i}", title=f"P{i}", normalised_title=f"p{i}") for i in range(5)]
        desk.db.add_all(added)
        collection = collections.create(desk.db, desk.ada, "Ordered")
        for paper in added:
            collections.add(desk.db, desk.ada, collection.id, paper)
        plain = [paper.slug for paper in added]
        for which, position in moves:
            collections.move(desk.db, desk.ada, collection.id, added[which].id, position)
            plain.remove(added[which].slug)
            plain.insert(max(0, position), added[which].slug)
            desk.db.expire_all()
            assert slugs(collections.get(desk.db, desk.ada, collection.id)) == plain
            assert [item.position for item in collection.items] == list(range(5))


def test_deleting_leaves_the_papers(desk, shelf):
    collections.remove(desk.db, desk.ada, shelf.id)
    assert desk.count(CollectionItem) == 0
    assert desk.count(Paper) == 2


def test_limits_are_stated(desk, shelf, monkeypatch):
    with pytest.raises(InvalidError, match="title"):
        collections.create(desk.db, desk.ada, " ")
    with pytest.raises(TooLargeError, match="200"):
        collections.create(desk.db, desk.ada, "x" * 201)
    with pytest.raises(InvalidError, match="public"):
        collections.edit(desk.db, desk.ada, shelf.id, visibility="public")
    monkeypatch.setattr(collections, "MOST_COLLECTIONS", 1)
    with pytest.raises(TooLargeError):
        collections.create(desk.db, desk.ada, "one too many")
    monkeypatch.setattr(collections, "MOST_ITEMS", 1)
    collections.take_out(desk.db, desk.ada, shelf.id, desk.paper.id)
    with pytest.raises(TooLargeError):
        collections.add(desk.db, desk.ada, shelf.id, desk.paper)


def test_every_change_is_audited(desk, shelf):
    collections.edit(desk.db, desk.ada, shelf.id, title="Read")
    collections.renew_link(desk.db, desk.ada, shelf.id)
    collections.move(desk.db, desk.ada, shelf.id, desk.paper.id, 1)
    collections.annotate(desk.db, desk.ada, shelf.id, desk.paper.id, "!")
    collections.take_out(desk.db, desk.ada, shelf.id, desk.paper.id)
    collections.remove(desk.db, desk.ada, shelf.id)
    names = "create add add edit renew-link move annotate take-out delete".split()
    assert desk.actions() == [f"collection.{name}" for name in names]


def test_the_audit_log_does_not_say_what_is_in_a_private_collection(desk, shelf):
    collections.annotate(desk.db, desk.ada, shelf.id, desk.paper.id, "my note")
    collections.move(desk.db, desk.ada, shelf.id, desk.paper.id, 1)
    collections.take_out(desk.db, desk.ada, shelf.id, desk.paper.id)
    logged = desk.db.scalars(select(AuditEntry).where(AuditEntry.subject_kind == "collection"))
    assert all(set(entry.detail) <= {"visibility"} for entry in logged)
