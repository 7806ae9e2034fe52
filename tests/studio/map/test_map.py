"""The research map agrees with the same graph written down plainly and searched by hand."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError, NotFoundError
from exactformer.studio.library.names import normalised
from exactformer.studio.library.tables import (
    Affiliation,
    Authorship,
    Citation,
    Claim,
    Institution,
    Paper,
    PaperTopic,
    Person,
    Topic,
)
from exactformer.studio.map import slices
from exactformer.studio.map.nodes import describe, search
from exactformer.studio.map.relations import KINDS, Edge, Key
from exactformer.studio.map.slices import explore, start
from exactformer.studio.storage import migrations
from exactformer.studio.storage.engine import Database
from exactformer.studio.storage.tables import Base
from tests.examples import examples
from tests.studio.support.map_library import CLAIMS, add_works

SIZE = 4
numbers = st.integers(1, SIZE)
pairs = st.sets(st.tuples(numbers, numbers), max_size=6)
kinds_of_nodes = st.sets(st.sampled_from(KINDS), min_size=1)
few = settings(max_examples=examples(25))
keys = st.builds(Key, st.sampled_from(KINDS), numbers)


@st.composite
def libraries(draw):
    """Rows of a small library: SIZE nodes of each kind and edges at random."""
    rows = []
    for i in range(1, SIZE + 1):
        rows += [
            Paper(id=i, slug=f"paper-{i}", title=f"Paper {i}", normalised_title=f"paper {i}"),
            Person(id=i, name=f"Person {i}", normalised_name=f"person {i}"),
            Institution(id=i, name=f"House {i}", normalised_name=f"house {i}"),
            Topic(id=i, slug=f"topic-{i}", name=f"Topic {i}"),
        ]
    rows += [Citation(citing_id=a, cited_id=b) for a, b in draw(pairs) if a != b]
    rows += [PaperTopic(paper_id=a, topic_id=b) for a, b in draw(pairs)]
    for i in range(1, SIZE + 1):
        rows.append(
            Claim(
                id=i,
                paper_id=draw(numbers),
                position=i,
                anchor=f"claim-{i}",
                kind="table",
                title="c",
            )
        )
    # The same person may stand twice in a list of authors, and name the same house in every paper.
    for paper in range(1, SIZE + 1):
        for position, person in enumerate(draw(st.lists(numbers, max_size=3))):
            rows.append(Authorship(paper_id=paper, position=position, person_id=person))
            rows += [
                Affiliation(paper_id=paper, position=position, institution_id=house)
                for house in draw(st.sets(numbers, max_size=2))
            ]
    return rows


def written_down(rows) -> set[Edge]:
    """Return the edges of the graph, straight from the rows."""
    authors = {(r.paper_id, r.position): r.person_id for r in rows if isinstance(r, Authorship)}
    edges = set()
    for row in rows:
        if isinstance(row, Citation):
            edges.add(Edge(Key("paper", row.citing_id), "cites", Key("paper", row.cited_id)))
        elif isinstance(row, PaperTopic):
            edges.add(Edge(Key("paper", row.paper_id), "about", Key("topic", row.topic_id)))
        elif isinstance(row, Claim):
            edges.add(Edge(Key("paper", row.paper_id), "claims", Key("claim", row.id)))
        elif isinstance(row, Authorship):
            edges.add(Edge(Key("person", row.person_id), "wrote", Key("paper", row.paper_id)))
        elif isinstance(row, Affiliation):
            person = Key("person", authors[row.paper_id, row.position])
            edges.add(Edge(person, "works-at", Key("institution", row.institution_id)))
    return edges


def adjacency(edges, through) -> dict[Key, set[Key]]:
    """Return neighbours in both directions; edges beside nodes that may not be entered are gone."""
    neighbours = defaultdict(set)
    for edge in edges:
        if edge.source.kind in through:
            neighbours[edge.target].add(edge.source)
        if edge.target.kind in through:
            neighbours[edge.source].add(edge.target)
    return neighbours


def distances(neighbours, centre) -> dict[Key, int]:
    found, waiting = {centre: 0}, deque([centre])
    while waiting:
        key = waiting.popleft()
        for other in neighbours[key] - found.keys():
            found[other] = found[key] + 1
            waiting.append(other)
    return found


@cache
def empty_tables() -> Connection:
    connection = create_engine("sqlite://").connect()
    Base.metadata.create_all(connection)
    connection.commit()
    return connection


@contextmanager
def open_library(rows) -> Iterator[Session]:
    """Give a session that sees these rows; they are gone afterwards."""
    connection = empty_tables()
    with Session(connection, autoflush=False) as db:
        for kind in (Paper, Person, Institution, Topic, Authorship):
            db.add_all(row for row in rows if isinstance(row, kind))
            db.flush()
        db.add_all(rows)
        db.flush()
        yield db
    connection.rollback()


@few
@given(libraries(), keys, st.sampled_from((1, 2)), kinds_of_nodes, st.integers(1, 12))
def test_a_slice_is_the_graph_restricted_to_its_nodes(rows, centre, depth, kinds, limit):
    edges = written_down(rows)
    with open_library(rows) as db:
        found = explore(db, centre, depth, kinds, limit)
    shown = {node.key for node in found.nodes}
    assert centre in shown
    assert len(shown) == len(found.nodes) <= limit
    assert all(key.kind in kinds for key in shown - {centre})
    assert set(found.edges) == {e for e in edges if {e.source, e.target} <= shown}
    reach = distances(adjacency(edges, kinds), centre)
    assert all(reach[key] <= depth for key in shown)


@few
@given(libraries(), keys, st.sampled_from((1, 2)), kinds_of_nodes)
def test_a_slice_with_room_is_the_whole_ball_and_leaves_nothing_uncounted(
    rows, centre, depth, kinds
):
    edges = written_down(rows)
    with open_library(rows) as db:
        found = explore(db, centre, depth, kinds, slices.LARGEST)
    reach = distances(adjacency(edges, kinds), centre)
    assert {node.key for node in found.nodes} == {k for k, d in reach.items() if d <= depth}
    assert not found.left_out
    degrees = Counter(key for e in edges for key in (e.source, e.target))
    assert {n.key: n.degree for n in found.nodes} == {n.key: degrees[n.key] for n in found.nodes}


@few
@given(libraries(), keys, kinds_of_nodes, st.integers(1, 8), st.lists(keys, max_size=2))
def test_what_has_no_place_is_counted_by_kind(rows, centre, kinds, limit, expanded):
    neighbours = adjacency(written_down(rows), kinds)
    with open_library(rows) as db:
        found = explore(db, centre, 1, kinds, limit, expanded)
    shown = {node.key for node in found.nodes}
    assert found.walked == {centre, *expanded}
    beside = set().union(*(neighbours[key] for key in found.walked)) - shown
    assert found.left_out == Counter(key.kind for key in beside)


@few
@given(libraries(), keys, st.lists(keys, max_size=2))
def test_expanding_a_node_shows_all_its_neighbours_where_there_is_room(rows, centre, expanded):
    neighbours = adjacency(written_down(rows), KINDS)
    with open_library(rows) as db:
        found = explore(db, centre, expanded=expanded)
    shown = {node.key for node in found.nodes}
    assert all(neighbours[key] <= shown for key in (centre, *expanded))


def test_hubs_are_left_closed_at_depth_two_and_say_how_many_they_have(monkeypatch):
    rows = [
        Paper(id=i, slug=f"p{i}", title=f"P {i}", normalised_title=f"p {i}") for i in range(1, 21)
    ]
    topic = Topic(id=1, slug="all", name="Everything")
    about = [PaperTopic(paper_id=i, topic_id=1) for i in range(1, 21)]
    with open_library([*rows, topic, *about, Citation(citing_id=1, cited_id=2)]) as db:
        everything = explore(db, Key("paper", 1), depth=2)
        assert len(everything.nodes) == 21
        monkeypatch.setattr(slices, "WALKED", 15)
        found = explore(db, Key("paper", 1), depth=2)
    assert [str(n.key) for n in found.nodes] == ["paper:1", "paper:2", "topic:1"]
    assert Key("topic", 1) not in found.walked
    assert found.nodes[2].degree == 20


def test_a_name_is_found_by_its_words_without_accents_and_wildcards_are_letters():
    people = ["Gözde Yılmaz", "Yıldız Gök", "Percy % Sign"]
    rows = [
        Person(id=i, name=name, normalised_name=normalised(name))
        for i, name in enumerate(people, 1)
    ]
    paper = Paper(id=1, slug="g", title="On Gözde", normalised_title="on gozde", year=1999)
    with open_library([*rows, paper, Topic(id=1, slug="t", name="Self-Attention")]) as db:
        assert [n.label for n in search(db, "GOZDE")] == ["On Gözde (1999)", "Gözde Yılmaz"]
        assert [n.label for n in search(db, "gözde", kinds={"person"})] == ["Gözde Yılmaz"]
        assert [n.href for n in search(db, "self attention")] == ["/topics/t"]
        assert search(db, "%") == ()
        assert search(db, "  ") == ()


def test_papers_are_drawn_with_first_author_and_year():
    rows = [
        Paper(id=1, slug="a", title="A title", normalised_title="a title", year=2022),
        Paper(id=2, slug="b", title="A very long title " * 9, normalised_title="b"),
        Person(id=1, name="Zhiying Fang", normalised_name="zhiying fang"),
        Person(id=2, name="Zhou, Ding-Xuan", normalised_name="zhou ding xuan"),
        Authorship(paper_id=1, position=1, person_id=1),
        Authorship(paper_id=1, position=2, person_id=2),
    ]
    with open_library(rows) as db:
        first, second = describe(db, [Key("paper", 1), Key("paper", 2)])
    assert (first.short, first.label, first.href) == ("Fang 2022", "A title (2022)", "/papers/a")
    assert second.short == "A very long title A very…"


@pytest.mark.parametrize("text", ["", "paper", "paper:", "paper:0", "cat:1", "paper:2147483648"])
def test_what_is_no_node_is_refused(text):
    with pytest.raises(InvalidError, match="as in paper:12"):
        Key.parse(text)


@given(keys)
def test_names_of_nodes_are_read_as_written(key):
    assert Key.parse(str(key)) == key


def test_bounds_are_stated_and_what_is_not_there_is_said():
    papers = [
        Paper(id=i, slug=f"p{i}", title=f"P {i}", normalised_title=f"p {i}") for i in (1, 2, 3)
    ]
    with open_library(papers) as db:
        centre = Key("paper", 1)
        assert start(db) == Key("paper", 3)
        with pytest.raises(NotFoundError, match="no person number 9"):
            explore(db, Key("person", 9))
        for wrong in ({"depth": 3}, {"limit": 201}, {"kinds": ("cat",)}, {"kinds": ()}):
            with pytest.raises(InvalidError):
                explore(db, centre, **wrong)
        with pytest.raises(InvalidError, match="at most 20"):
            explore(db, centre, expanded=[centre] * 21)
        with pytest.raises(InvalidError, match="200 characters"):
            search(db, "x" * 201)
    with open_library([]) as db:
        assert start(db) is None


def test_both_databases_find_the_same(database_url):
    database = Database(database_url)
    migrations.upgrade(database)
    with database.writing() as db:
        works = {name: Key.parse(text) for name, text in add_works(db).items()}
    with database.session() as db:
        found = explore(db, works["person"], depth=2, limit=20, expanded=[works["middle"]])
        names = [node.label for node in search(db, "MAP theorem 1", limit=3)]
    database.close()
    assert works["far"] in {node.key for node in found.nodes}
    assert found.left_out["claim"] == CLAIMS - sum(n.key.kind == "claim" for n in found.nodes)
    assert names == ["Map theorem 1", "Map theorem 10", "Map theorem 11"]
