"""Papers are found, counted by rows, and edited by curators with a trace."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from exactformer.claims import ledger
from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LoginNeededError,
    NotFoundError,
)
from exactformer.studio.library import catalogue, edits, papers, people, seeds
from exactformer.studio.library.catalogue import record
from exactformer.studio.library.papers import SORTS, Browse
from exactformer.studio.library.records import keys
from exactformer.studio.library.tables import Citation, Paper
from exactformer.studio.opinions.tables import Comment, Review, Save
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.storage.audit import AuditEntry

FANG = "fang-2022-attention-enables-zero-approximation-error"


@pytest.fixture
def library(seeded_library: Session) -> Session:
    return seeded_library


@pytest.fixture
def curator(library: Session) -> Actor:
    user = User(handle="cleo", name="Cleo", password_hash="-", role="curator")
    library.add(user)
    library.flush()
    return Actor(user.id, "cleo", "Cleo", "curator")


def test_a_paper_is_found_by_its_slug_alone(library: Session, curator: Actor) -> None:
    assert papers.get(library, FANG).year == 2022
    for slug in ("", "nothing", "../x", "a\0b", FANG.upper(), "x" * 5000):
        with pytest.raises(NotFoundError):
            papers.get(library, slug)


def test_counts_are_numbers_of_rows(library: Session, curator: Actor) -> None:
    paper = papers.get(library, FANG)
    who = {"author_id": curator.id, "paper_id": paper.id}
    library.add_all(
        [
            Save(user_id=curator.id, paper_id=paper.id),
            Review(summary="s", confidence=3, **who),
            Comment(body="seen", **who),
            Comment(body="gone", state="deleted", **who),
            Comment(body="hidden", state="hidden", **who),
        ]
    )
    library.flush()
    counts = papers.counts(library, [paper.id])[paper.id]
    assert counts == papers.Counts(0, 17, 1, 1, 1, len(ledger("fang-2022")))


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_gives_every_paper_once(library: Session, curator: Actor, sort: Any) -> None:
    pages = [papers.find(library, Browse(sort=sort, limit=7, offset=n)) for n in range(0, 60, 7)]
    ids = [paper.id for page in pages for paper in page.items]
    assert sorted(ids) == sorted(library.scalars(select(Paper.id)))
    assert {page.total for page in pages} == {len(ids)}


def test_the_most_cited_come_first_and_citing_a_paper_does_not_change_it(library: Session) -> None:
    fang, other = papers.get(library, FANG), seeds.featured(library)[0]
    before = fang.updated_at, other.updated_at
    citing = [paper for paper in library.scalars(select(Paper).limit(30)) if paper is not fang]
    ties = {paper.id: keys(record(fang)) for paper in citing}
    assert catalogue.cite(library, ties) == len(citing)
    assert catalogue.cite(library, ties) == 0
    rows = Counter(library.scalars(select(Citation.cited_id)))
    kept = library.execute(select(Paper.id, Paper.times_cited))
    assert {id: times for id, times in kept if times} == rows
    found = papers.find(library, Browse(sort="cited", limit=100)).items
    assert found[0] is fang
    times = [rows[paper.id] for paper in found]
    assert times == sorted(times, reverse=True)
    library.refresh(fang)
    library.refresh(other)
    assert (fang.updated_at, other.updated_at) == before


def test_browsing_begins_with_the_works_that_claim_something(
    library: Session, curator: Actor
) -> None:
    first = papers.find(library, Browse(sort="claims", limit=4)).items
    assert {paper.id for paper in first} == {paper.id for paper in seeds.featured(library)}


def test_filters_take_away_what_does_not_fit(library: Session, curator: Actor) -> None:
    assert papers.find(library, Browse(kind="talk")).total == 1
    assert papers.find(library, Browse(topic="polynomials")).total == 1
    assert papers.find(library, Browse(topic="no-such")).total == 0
    assert papers.find(library, Browse(q="!?")).total == 0
    zhou = papers.get(library, FANG).authorships[2]
    assert papers.find(library, Browse(person=zhou.person_id)).total == 4
    (house,) = zhou.institutions
    assert papers.find(library, Browse(institution=house.id)).total == 1
    assert [p.name for p in people.people_at(library, house.id)] == ["Ding-Xuan Zhou"]
    assert people.institutions_of(library, zhou.person_id) == [house]
    together = {person.name for person, _ in people.coauthors(library, zhou.person_id)}
    assert {"Zhiying Fang", "Tong Mao"} <= together


def test_a_list_takes_the_same_number_of_queries_however_long(
    library: Session, curator: Actor
) -> None:
    seen: list[str] = []
    connection = library.connection()
    event.listen(connection, "before_cursor_execute", lambda *a: seen.append(a[2]))
    numbers = []
    for limit in (2, 40):
        library.expunge_all()
        seen.clear()
        found = papers.find(library, Browse(limit=limit))
        papers.counts(library, [paper.id for paper in found.items])
        assert all(place.person.name for paper in found.items for place in paper.authorships)
        numbers.append(len(seen))
    assert numbers[0] == numbers[1] < 16


def test_an_edit_changes_the_page_the_index_and_the_history(
    library: Session, curator: Actor
) -> None:
    changes = {
        "title": "Zero error",
        "doi": "https://doi.org/10.1000/ABC",
        "authors": [{"name": "Guang Cheng"}, {"name": "New Name", "institutions": ["House"]}],
        "topics": ["Polynomials", "Fresh"],
    }
    edits.edit(library, curator, FANG, changes)
    library.expire_all()
    after = record(papers.get(library, FANG))
    assert (after.title, after.doi, after.year) == ("Zero error", "10.1000/abc", 2022)
    assert [author.name for author in after.authors] == ["Guang Cheng", "New Name"]
    assert after.authors[1].institutions == ("House",)
    assert papers.find(library, Browse(q="fresh name")).total == 1
    (entry,) = papers.history(library, papers.get(library, FANG).id)
    assert entry.actor_id == curator.id
    assert set(entry.detail) == set(changes)
    assert entry.detail["title"] == ["Attention Enables Zero Approximation Error", "Zero error"]


def test_an_edit_that_changes_nothing_leaves_no_trace(library: Session, curator: Actor) -> None:
    edits.edit(library, curator, FANG, {"year": 2022})
    assert papers.history(library, papers.get(library, FANG).id) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"title": "  "}, "title: is empty"),
        ({"title": "x" * 501}, "the limit is 500"),
        ({"year": 99}, "year"),
        ({"url": "javascript:alert(1)"}, "http"),
        ({"doi": "ten dollars"}, "doi"),
        ({"authors": [{"name": ""}]}, "authors.0.name"),
        ({"slug": "other"}, "slug"),
        ({"title": "a\0b"}, r"U\+0000"),
    ],
)
def test_what_cannot_be_accepted_is_refused(
    library: Session, curator: Actor, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidError, match=says):
        edits.edit(library, curator, FANG, changes)


def test_edits_are_for_curators_and_for_what_they_saw(library: Session, curator: Actor) -> None:
    reader = Actor(curator.id, "r", "R", "reader")
    for nobody, refusal in ((VISITOR, LoginNeededError), (reader, ForbiddenError)):
        with pytest.raises(refusal):
            edits.edit(library, nobody, FANG, {"year": 2021})
    seen = edits.version_of(papers.get(library, FANG))
    edits.edit(library, curator, FANG, {"year": 2021}, seen)
    with pytest.raises(ConflictError, match="meanwhile"):
        edits.edit(library, curator, FANG, {"year": 2020}, seen)
    with pytest.raises(ConflictError, match="another paper"):
        edits.edit(library, curator, FANG, {"arxiv_id": "1912.10077"})
    actions = select(AuditEntry.action).where(AuditEntry.subject_kind == "paper")
    assert library.scalars(actions).all() == ["paper.edit"]
