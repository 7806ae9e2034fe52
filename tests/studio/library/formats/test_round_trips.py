"""What leaves the library comes back: JSON whole, BibTeX in what it can say, CSV harmless."""

from __future__ import annotations

import csv
import io
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.library import exports, formats, imports
from exactformer.studio.library.formats import bibtex, own, table
from exactformer.studio.library.records import PaperRecord, checked
from exactformer.studio.library.tables import Paper
from tests.examples import examples
from tests.studio.support.desks import open_library
from tests.studio.support.made_records import records


@given(st.lists(records(), min_size=1, max_size=4))
def test_json_loses_nothing(made: list[PaperRecord]) -> None:
    text = "".join(own.written((f"slug-{n}", record) for n, record in enumerate(made)))
    assert formats.read(text.encode()) == ("library", made)


def test_a_library_exported_and_imported_is_the_same_library(seeded_library: Session) -> None:
    first = "".join(exports.stream(seeded_library, "json"))
    _, made = formats.read(first.encode())
    with open_library() as other:
        outcome = imports.store(other, made)
        assert len(outcome.added) == len(made) > 40
        other.commit()
        assert "".join(exports.stream(other, "json")) == first


def test_importing_an_export_into_its_own_library_changes_nothing(seeded_library: Session) -> None:
    text = "".join(exports.stream(seeded_library, "json"))
    outcome = imports.store(seeded_library, formats.read(text.encode())[1])
    assert (outcome.added, outcome.filled, outcome.citations) == ((), (), 0)
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


@given(st.lists(records(), min_size=1, max_size=3))
def test_no_cell_of_a_table_begins_like_a_formula(made: list[PaperRecord]) -> None:
    text = "".join(table.written(("=slug", record) for record in made))
    head, *rows = csv.reader(io.StringIO(text))
    assert head == list(table.COLUMNS)
    assert len(rows) == len(made)
    assert not [cell for row in rows for cell in row if cell.lstrip()[:1] in tuple("=+-@")]
    titles = [row[head.index("title")] for row in rows]
    assert [title.removeprefix("'") for title in titles] == [
        record.title.removeprefix("'") for record in made
    ]


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
        imports.store(db, made)
        db.commit()
        text = "".join(exports.stream(db, "json"))
        _, back = formats.read(text.encode())
        with open_library(blank) as other:
            imports.store(other, back)
            other.commit()
            assert "".join(exports.stream(other, "json")) == text


def test_the_library_is_streamed_in_batches(library: Session) -> None:
    made = [checked({"title": f"Paper {n}"}, "made") for n in range(450)]
    imports.store(library, made)
    library.commit()
    _, back = formats.read("".join(exports.stream(library, "json")).encode())
    assert back == made


def test_a_slow_reader_of_everything_holds_no_connection(seeded_library: Session) -> None:
    pieces = exports.stream(seeded_library, "json")
    assert [next(pieces) for _ in range(3)]
    assert not seeded_library.in_transaction()
