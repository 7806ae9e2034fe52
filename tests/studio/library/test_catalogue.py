"""Records become papers: what is there is recognised and filled, and nothing is overwritten."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.studio.library import papers
from exactformer.studio.library.catalogue import store
from exactformer.studio.library.matches import match
from exactformer.studio.library.records import PaperRecord, checked
from exactformer.studio.library.tables import Citation, Paper
from tests.examples import examples
from tests.studio.support.desks import open_library


def made(title: str = "Attention enables zero error", **fields: Any) -> PaperRecord:
    return checked({"title": title, **fields}, "made")


def number(db: Session, table: Any = Paper) -> int:
    return db.scalar(select(func.count()).select_from(table)) or 0


def slugs_of(db: Session, records: list[PaperRecord]) -> list[str]:
    return [each.paper.slug for each in store(db, records) if each.is_new]


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        ({"doi": "10.1000/x"}, {"title": "Other", "doi": "10.1000/x"}),
        ({"arxiv_id": "2202.12166"}, {"title": "Other", "arxiv_id": "2202.12166"}),
        ({}, {"title": "ATTENTION enables: Zero Érror"}),
        ({"year": 2022}, {"year": 2023}),
        ({"authors": [{"name": "Zhiying Fang"}]}, {"authors": [{"name": "Fang, Z."}]}),
    ],
)
def test_a_paper_that_is_there_is_recognised(
    library: Session, there: dict[str, Any], comes: dict[str, Any]
) -> None:
    (first,) = store(library, [made(**there)])
    assert match(library, made(**comes)) == first.paper.id
    store(library, [made(**comes)])
    assert number(library) == 1


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        ({"year": 2019}, {"year": 2022}),
        ({"authors": [{"name": "Ian Goodfellow"}]}, {"authors": [{"name": "Yann LeCun"}]}),
        ({"doi": "10.1000/x"}, {"title": "Something else", "doi": "10.1000/y"}),
    ],
)
def test_papers_that_only_look_alike_are_kept_apart(
    library: Session, there: dict[str, Any], comes: dict[str, Any]
) -> None:
    store(library, [made(**there)])
    assert match(library, made(**comes)) is None
    store(library, [made(**comes)])
    assert number(library) == 2


def test_gaps_are_filled_and_nothing_is_overwritten(library: Session) -> None:
    first = made(year=2022, abstract="Ours", doi="10.1000/x", authors=[{"name": "A"}])
    second = made(
        "Attention enables zero error!",
        year=2023,
        abstract="Theirs",
        doi="10.1000/x",
        source="arXiv",
        kind="preprint",
        authors=[{"name": "A"}, {"name": "B"}],
        topics=["New"],
    )
    store(library, [first])
    (stored,) = store(library, [second])
    assert not stored.is_new
    assert set(stored.gained) == {"source", "kind", "topics"}
    paper = stored.paper
    assert (paper.title, paper.year, paper.abstract) == (first.title, 2022, "Ours")
    assert (paper.source, paper.kind) == ("arXiv", "preprint")
    assert [place.person.name for place in paper.authorships] == ["A"]
    assert papers.find(library, papers.Browse(q="new")).total == 1


def test_an_identifier_of_another_paper_is_not_taken_over(library: Session) -> None:
    store(library, [made("One", doi="10.1000/1"), made("Two", arxiv_id="2202.12166")])
    store(library, [made("One", doi="10.1000/1", arxiv_id="2202.12166")])
    one = library.scalars(select(Paper).where(Paper.title == "One")).one()
    assert one.arxiv_id is None


def test_records_that_repeat_each_other_become_one_paper(library: Session) -> None:
    one, again, third, two = store(
        library,
        [
            made("One", doi="10.1000/1"),
            made("Eins", doi="10.1000/1", arxiv_id="2202.12166"),
            made("Uno", arxiv_id="2202.12166", source="arXiv"),
            made("Two"),
        ],
    )
    assert one.paper is again.paper is third.paper is not two.paper
    assert (one.paper.title, one.paper.arxiv_id, one.paper.source) == ("One", "2202.12166", "arXiv")


def test_citations_are_tied_where_both_ends_are_known(library: Session) -> None:
    store(library, [made("Old", doi="10.1000/1")])
    batch = [
        made("New", doi="10.1000/2", references=[f"doi:10.1000/{n}" for n in (1, 3, 9)]),
        made("Newer", doi="10.1000/3", references=[f"doi:10.1000/{n}" for n in (3, 2)]),
    ]
    for _ in range(2):
        store(library, batch)
        assert number(library, Citation) == 3


def test_slugs_are_words_and_unique(library: Session) -> None:
    fang = [{"name": "Zhiying Fang"}]
    batch = [made("Zero", year=2000 + 5 * n, authors=fang) for n in range(2)]
    assert slugs_of(library, batch) == ["fang-2000-zero", "fang-2005-zero"]
    others = [made("Zero!", year=2000, authors=[{"name": "Łu Yun"}]), made("注意"), made("力")]
    assert slugs_of(library, others) == ["yun-2000-zero", "paper", "paper-2"]
    assert slugs_of(library, [made("神")]) == ["paper-3"]
    many = [made(chr(0x4E00 + n)) for n in range(40)]
    slugs = slugs_of(library, many)
    assert slugs == [f"paper-{n}" for n in range(4, 4 + len(slugs))]


@settings(max_examples=examples(25))
@given(
    st.lists(st.sampled_from(["注", "意", "力", "注 2", "意 2", "力 3", "a", "a 2"]), max_size=6)
)
def test_slugs_never_meet(blank: sqlite3.Connection, titles: list[str]) -> None:
    with open_library(blank) as db:
        for number, title in enumerate(titles):
            store(
                db,
                [made(title, doi=f"10.1000/{number}{n}", year=1000 + 20 * n) for n in (1, 2)],
            )
        store(db, [made(f"{t} 2", doi=f"10.1001/{n}") for n, t in enumerate(titles)])
        db.flush()
        slugs = list(db.scalars(select(Paper.slug)))
        assert len(set(slugs)) == len(slugs) >= 2 * bool(titles)


def test_a_title_that_looks_like_a_numbered_slug_does_no_harm(library: Session) -> None:
    titles = ("深度学习", "机器学习", "深度学习 2", "学习")
    slugs = slugs_of(library, [made(t, year=2020) for t in titles])
    assert slugs == ["2020", "2020-2", "2020-2-2", "2020-3"]


def test_people_are_one_by_name_unless_their_orcids_differ(library: Session) -> None:
    orcids = ["0000-0002-1825-0097", "0000-0001-5109-3700"]
    batch = [
        made("One", authors=[{"name": "Guang Cheng", "orcid": orcids[0]}]),
        made("Two", authors=[{"name": "Guang  CHENG"}]),
        made("Three", authors=[{"name": "Guang Cheng", "orcid": orcids[1]}]),
    ]
    one, two, three = (each.paper.authorships[0].person for each in store(library, batch))
    assert one is two
    assert one is not three
    assert three.orcid == orcids[1]
