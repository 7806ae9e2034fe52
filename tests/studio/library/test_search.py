"""Whatever is typed finds words, and is never syntax."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from exactformer.studio.library import catalogue, papers, search, search_index, seeds
from exactformer.studio.library.names import words
from exactformer.studio.library.papers import SORTS, Browse
from exactformer.studio.library.records import checked
from exactformer.studio.library.tables import Paper
from exactformer.studio.storage.tables import Base
from tests.examples import examples
from tests.studio.conftest import EITHER
from tests.studio.support.desks import make_search_index, open_library
from tests.studio.support.made_records import NAMES


@pytest.fixture(scope="module")
def seeded(original: sqlite3.Connection) -> Iterator[Session]:
    with open_library(original) as db:
        yield db


@pytest.fixture(scope="module", params=EITHER)
def either(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The seeded library in either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("seeded")
        return
    engine = create_engine(request.getfixturevalue("postgres").new_database())
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        make_search_index(connection)
    with Session(engine) as db:
        seeds.seed(db)
        yield db
    engine.dispose()


def found(db: Session, q: str, **asked: object) -> list[str]:
    return [paper.title for paper in papers.find(db, Browse(q=q, **asked)).items]  # type: ignore[arg-type]


@given(st.text(max_size=80), st.sampled_from(SORTS), st.sampled_from([None, "article"]))
def test_no_query_fails(seeded: Session, q: str, sort: papers.Sort, kind: str | None) -> None:
    result = papers.find(seeded, Browse(q=q, sort=sort, kind=kind))
    assert len(result.items) <= min(20, result.total)


SYNTAX = [
    '"',
    "a AND",
    "NEAR(a b)",
    "title:x",
    "a*b*",
    "^a",
    "(",
    "a OR b NOT",
    "-",
    "a:* & b",
    "'",
    "\\",
    "a | b",
    "!a",
    "<->",
    "a'b",
    "%_",
    ";drop table papers",
    "\0",
]


def searched_by_reading(db: Session, q: str) -> list[str]:
    """Return the titles of papers with every word of q, the last one as a beginning."""
    typed = words(q)

    def fits(paper: Paper) -> bool:
        names = [each.person.name for each in paper.authorships]
        topics = [topic.name for topic in paper.topics]
        held = set(words(" ".join([paper.title, *names, *topics, paper.abstract])))
        return {*typed[:-1]} <= held and any(word.startswith(typed[-1]) for word in held)

    return [paper.title for paper in db.query(Paper) if fits(paper)] if typed else []


@pytest.mark.spread(14)
@pytest.mark.parametrize("q", SYNTAX)
def test_operators_of_either_database_are_words(either: Session, q: str) -> None:
    everything = found(either, "", limit=100)
    assert sorted(found(either, q, limit=100)) == sorted(searched_by_reading(either, q))
    assert found(either, "", limit=100) == everything


def test_all_words_must_occur_in_any_field(either: Session) -> None:
    assert found(either, "vaswani attention ") == ["Attention is all you need"]
    assert found(either, "vaswani recurrent ") == []
    assert "Attention Enables Zero Approximation Error" in found(either, "polynomials zhou ")


def test_the_last_word_may_be_unfinished(either: Session) -> None:
    assert found(either, "vaswani atten") == ["Attention is all you need"]
    assert found(either, "vaswani atten ") == []
    assert found(either, "atten vaswani ") == []


def test_case_and_accents_do_not_matter(either: Session) -> None:
    title = "On the rate of convergence of a classifier based on a transformer encoder"
    for q in ("gözde gul SAHIN", "Gozde", "GÖZDE Gül"):
        assert found(either, q) == [title]


def test_titles_come_before_abstracts(either: Session) -> None:
    assert found(either, "deep learning ")[:2] == ["Deep learning", "Deep learning"]


def test_filters_and_orders_go_with_words(either: Session) -> None:
    assert found(either, "deep learning ", year=2015) == ["Deep learning"]
    assert found(either, "attention", kind="talk") == ["Transformers are universal approximators"]
    newest = papers.find(either, Browse(q="transformers", sort="newest")).items
    years = [paper.year or 0 for paper in newest]
    assert years == sorted(years, reverse=True)


def test_pages_follow_each_other_without_gaps(either: Session) -> None:
    whole = found(either, "transformer", limit=100)
    pages = [found(either, "transformer", limit=5, offset=n) for n in range(0, 60, 5)]
    assert [title for page in pages for title in page] == whole


@settings(max_examples=examples(30))
@given(NAMES)
def test_a_paper_is_found_by_every_word_of_its_title(blank: sqlite3.Connection, title: str) -> None:
    record = checked({"title": title}, "made")
    with open_library(blank) as db:
        catalogue.store(db, [record])
        for word in words(record.title):
            assert found(db, f"{word} ") == [record.title]


def test_the_index_follows_every_change(library: Session) -> None:
    catalogue.store(library, [checked({"title": "Before", "authors": [{"name": "Ada"}]}, "made")])
    paper = library.query(Paper).one()
    paper.title = "After"
    search_index.index(library, [paper.id])
    assert (found(library, "before"), found(library, "after")) == ([], ["After"])
    library.delete(paper)
    library.flush()
    assert library.scalar(text("SELECT count(*) FROM search_papers")) == 0


def test_the_whole_index_can_be_made_anew(either: Session) -> None:
    either.execute(text("DELETE FROM search_papers"))
    assert found(either, "vaswani") == []
    search_index.index_all(either)
    assert found(either, "vaswani") == ["Attention is all you need"]


def test_highlights_escape_everything_around_them() -> None:
    query = search.parse("attention enc")
    marked = search.highlight("<b>Attention</b> & Encoders", query)
    assert marked == ("&lt;b&gt;<mark>Attention</mark>&lt;/b&gt; &amp; <mark>Encoders</mark>")


@given(st.text(max_size=400), st.text(max_size=20))
def test_excerpts_are_safe_and_short(source: str, q: str) -> None:
    shown = search.excerpt(source, search.parse(q))
    bare = shown.replace("<mark>", "").replace("</mark>", "")
    assert "<" not in bare
    assert ">" not in bare
    assert len(shown.striptags()) <= 290
