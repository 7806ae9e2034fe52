"""What leaves the library comes back: JSON whole, BibTeX in what it can say."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.library import catalogue, exports, formats
from exactformer.studio.library.formats import bibtex, own
from exactformer.studio.library.records import PaperRecord, checked
from exactformer.studio.library.tables import Paper
from tests.examples import examples
from tests.studio.support.desks import open_library
from tests.studio.support.made_records import records


@given(st.lists(records(), min_size=1, max_size=4))
def test_json_loses_nothing(made: list[PaperRecord]) -> None:
    text = "".join(own.written((f"slug-{n}", record) for n, record in enumerate(made)))
    assert formats.read(text) == made


def test_a_library_exported_and_stored_elsewhere_is_the_same_library(
    seeded_library: Session,
) -> None:
    first = "".join(exports.stream(seeded_library, "json"))
    made = formats.read(first)
    with open_library() as other:
        stored = catalogue.store(other, made)
        assert sum(each.is_new for each in stored) == len(made) > 40
        other.commit()
        assert "".join(exports.stream(other, "json")) == first


def test_storing_an_export_in_its_own_library_changes_nothing(seeded_library: Session) -> None:
    text = "".join(exports.stream(seeded_library, "json"))
    stored = catalogue.store(seeded_library, formats.read(text))
    assert not any(each.is_new or each.gained for each in stored)
    assert "".join(exports.stream(seeded_library, "json")) == text


@given(records())
def test_bibtex_keeps_title_authors_year_and_identifiers(record: PaperRecord) -> None:
    text = "".join(bibtex.written([("slug", record)]))
    (back,) = bibtex.read(text)
    assert back.title == record.title
    assert [author.name for author in back.authors] == [author.name for author in record.authors]
    assert (back.year, back.doi) == (record.year, record.doi)
    assert back.arxiv_id == record.arxiv_id


@given(st.text(st.sampled_from("\\{}%&#_~^$-`'\" aé?!<>@"), max_size=30))
def test_whatever_is_special_to_tex_comes_back_as_it_was(text: str) -> None:
    line = " ".join(text.split())
    assert bibtex.plain(bibtex.escaped(line)) == line


@pytest.mark.parametrize("format", exports.FORMATS)
def test_papers_are_written_in_the_order_asked_for(
    seeded_library: Session, format: exports.Format
) -> None:
    papers = seeded_library.scalars(select(Paper).order_by(Paper.slug.desc()).limit(3)).all()
    text, _ = exports.export(seeded_library, papers, format)
    places = [text.index(paper.title) for paper in papers]
    assert places == sorted(places)


@settings(max_examples=examples(20))
@given(st.lists(records(), min_size=1, max_size=4))
def test_any_records_survive_the_way_through_a_library(
    blank: sqlite3.Connection, made: list[PaperRecord]
) -> None:
    with open_library(blank) as db:
        catalogue.store(db, made)
        db.commit()
        text = "".join(exports.stream(db, "json"))
        back = formats.read(text)
        with open_library(blank) as other:
            catalogue.store(other, back)
            other.commit()
            assert "".join(exports.stream(other, "json")) == text


def test_the_library_is_streamed_in_batches(library: Session) -> None:
    made = [checked({"title": f"Paper {n}"}, "made") for n in range(250)]
    for record in made:
        catalogue.add(library, record)
    library.commit()
    back = formats.read("".join(exports.stream(library, "json")))
    assert back == made


def test_a_slow_reader_of_everything_holds_no_connection(seeded_library: Session) -> None:
    pieces = exports.stream(seeded_library, "json")
    assert [next(pieces) for _ in range(3)]
    assert not seeded_library.in_transaction()
