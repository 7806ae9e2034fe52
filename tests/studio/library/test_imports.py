"""An import shows what it would do, does it when asked, and never overwrites."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.studio.accounts.tables import User
from exactformer.studio.errors import ConflictError, ForbiddenError, LoginNeededError, NotFoundError
from exactformer.studio.library import imports, papers
from exactformer.studio.library.records import PaperRecord, checked
from exactformer.studio.library.tables import Citation, Paper, PendingImport
from exactformer.studio.security.actor import VISITOR, Actor
from exactformer.studio.storage.audit import AuditEntry
from tests.examples import examples
from tests.studio.support.desks import open_library


def made(title: str = "Attention enables zero error", **fields: Any) -> PaperRecord:
    return checked({"title": title, **fields}, "made")


def people(db: Session, *roles: str) -> list[Actor]:
    users = [User(handle=f"u{n}", name="U", password_hash="-", role=r) for n, r in enumerate(roles)]
    db.add_all(users)
    db.flush()
    return [Actor(user.id, user.handle, user.name, user.role) for user in users]


def number(db: Session, table: Any = Paper) -> int:
    return db.scalar(select(func.count()).select_from(table)) or 0


@pytest.mark.parametrize(
    ("there", "comes", "by"),
    [
        ({"doi": "10.1000/x"}, {"title": "Other", "doi": "10.1000/x"}, "the same DOI"),
        ({"arxiv_id": "2202.12166"}, {"title": "Other", "arxiv_id": "2202.12166"}, "arXiv id"),
        ({"openalex_id": "W1"}, {"title": "Other", "openalex_id": "W1"}, "OpenAlex id"),
        ({}, {"title": "ATTENTION enables: Zero Érror"}, "the same title"),
        ({"year": 2022}, {"year": 2023}, "the same title"),
        (
            {"authors": [{"name": "Zhiying Fang"}]},
            {"authors": [{"name": "Fang, Z."}]},
            "the same title",
        ),
    ],
)
def test_a_paper_that_is_there_is_recognised(
    library: Session, there: dict[str, Any], comes: dict[str, Any], by: str
) -> None:
    imports.store(library, [made(**there)])
    (item,) = imports.preview(library, [made(**comes)])
    assert item.paper is not None
    assert by in item.by
    imports.store(library, [made(**comes)])
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
    imports.store(library, [made(**there)])
    (item,) = imports.preview(library, [made(**comes)])
    assert item.is_new
    imports.store(library, [made(**comes)])
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
    imports.store(library, [first])
    (item,) = imports.preview(library, [second])
    assert set(item.gains) == {"source", "kind", "topics"}
    outcome = imports.store(library, [second])
    (paper,) = outcome.filled
    assert (paper.title, paper.year, paper.abstract) == (first.title, 2022, "Ours")
    assert (paper.source, paper.kind) == ("arXiv", "preprint")
    assert [place.person.name for place in paper.authorships] == ["A"]
    assert papers.find(library, papers.Browse(q="new")).total == 1


def test_an_identifier_of_another_paper_is_not_taken_over(library: Session) -> None:
    imports.store(library, [made("One", doi="10.1000/1"), made("Two", arxiv_id="2202.12166")])
    both = made("One", doi="10.1000/1", arxiv_id="2202.12166")
    imports.store(library, [both])
    one = library.scalars(select(Paper).where(Paper.title == "One")).one()
    assert one.arxiv_id is None


def test_records_that_repeat_each_other_become_one_paper(library: Session) -> None:
    batch = [
        made("One", doi="10.1000/1"),
        made("Eins", doi="10.1000/1", arxiv_id="2202.12166"),
        made("Uno", arxiv_id="2202.12166", source="arXiv"),
        made("Two"),
    ]
    items = imports.preview(library, batch)
    assert [item.repeats for item in items] == [None, 1, 1, None]
    outcome = imports.store(library, batch)
    assert [paper.title for paper in outcome.added] == ["One", "Two"]
    assert (outcome.added[0].arxiv_id, outcome.added[0].source) == ("2202.12166", "arXiv")


def test_citations_are_tied_where_both_ends_are_known(library: Session) -> None:
    imports.store(library, [made("Old", openalex_id="W1")])
    batch = [
        made("New", openalex_id="W2", references=["openalex:W1", "openalex:W3", "openalex:W9"]),
        made("Newer", openalex_id="W3", references=["openalex:W3", "openalex:W2"]),
    ]
    assert [item.citations for item in imports.preview(library, batch)] == [2, 2]
    assert imports.store(library, batch).citations == 3
    assert imports.store(library, batch).citations == 0
    assert number(library, Citation) == 3


def test_slugs_are_words_and_unique(library: Session) -> None:
    fang = [{"name": "Zhiying Fang"}]
    batch = [made("Zero", year=2000 + 5 * n, authors=fang) for n in range(2)]
    slugs = [paper.slug for paper in imports.store(library, batch).added]
    assert slugs == ["fang-2000-zero", "fang-2005-zero"]
    others = [made("Zero!", year=2000, authors=[{"name": "Łu Yun"}]), made("注意"), made("力")]
    slugs = [paper.slug for paper in imports.store(library, others).added]
    assert slugs == ["yun-2000-zero", "paper", "paper-2"]
    assert [p.slug for p in imports.store(library, [made("神")]).added] == ["paper-3"]
    many = [made(chr(0x4E00 + n)) for n in range(40)]
    slugs = [paper.slug for paper in imports.store(library, many).added]
    assert slugs == [f"paper-{n}" for n in range(4, 4 + len(slugs))]


@settings(max_examples=examples(25))
@given(
    st.lists(st.sampled_from(["注", "意", "力", "注 2", "意 2", "力 3", "a", "a 2"]), max_size=6)
)
def test_slugs_never_meet(blank: sqlite3.Connection, titles: list[str]) -> None:
    with open_library(blank) as db:
        for number, title in enumerate(titles):
            batch = [made(title, doi=f"10.1000/{number}{n}", year=1000 + 20 * n) for n in (1, 2)]
            imports.store(db, batch)
        batch = [made(f"{t} 2", doi=f"10.1001/{n}") for n, t in enumerate(titles)]
        imports.store(db, batch)
        db.flush()
        slugs = list(db.scalars(select(Paper.slug)))
        assert len(set(slugs)) == len(slugs) >= 2 * bool(titles)


def test_a_title_that_looks_like_a_numbered_slug_does_no_harm(library: Session) -> None:
    titles = ("深度学习", "机器学习", "深度学习 2", "学习")
    slugs = [p.slug for p in imports.store(library, [made(t, year=2020) for t in titles]).added]
    assert slugs == ["2020", "2020-2", "2020-2-2", "2020-3"]


def test_an_import_waits_for_its_owner_alone(library: Session) -> None:
    curator, other, reader = people(library, "curator", "curator", "reader")
    for nobody, refusal in ((VISITOR, LoginNeededError), (reader, ForbiddenError)):
        with pytest.raises(refusal):
            imports.propose(library, nobody, "bibtex", [made()])
    kept = imports.propose(library, curator, "bibtex", [made(), made("Second")])
    assert number(library) == 0
    for act in (imports.pending, imports.confirm, imports.discard):
        with pytest.raises(NotFoundError):
            act(library, other, kept.id)
    imports.store(library, [made("Second")])  # somebody was faster
    outcome = imports.confirm(library, curator, kept.id)
    assert (len(outcome.added), outcome.unchanged) == (1, 1)
    assert number(library) == 2
    assert number(library, PendingImport) == 0
    with pytest.raises(NotFoundError):
        imports.confirm(library, curator, kept.id)
    actions = library.scalars(select(AuditEntry.action)).all()
    assert actions == ["paper.import"]


def test_a_discarded_import_writes_nothing(library: Session) -> None:
    (curator,) = people(library, "curator")
    kept = imports.propose(library, curator, "bibtex", [made()])
    imports.discard(library, curator, kept.id)
    assert imports.waiting(library, curator) == []
    assert number(library) == 0


def test_only_so_many_imports_wait_at_once(library: Session) -> None:
    (curator,) = people(library, "curator")
    for _ in range(20):
        imports.propose(library, curator, "bibtex", [made()])
    with pytest.raises(ConflictError, match="confirm or discard"):
        imports.propose(library, curator, "bibtex", [made()])


def test_people_are_one_by_name_unless_their_orcids_differ(library: Session) -> None:
    orcids = ["0000-0002-1825-0097", "0000-0001-5109-3700"]
    batch = [
        made("One", authors=[{"name": "Guang Cheng", "orcid": orcids[0]}]),
        made("Two", authors=[{"name": "Guang  CHENG"}]),
        made("Three", authors=[{"name": "Guang Cheng", "orcid": orcids[1]}]),
    ]
    added = imports.store(library, batch).added
    one, two, three = (paper.authorships[0].person for paper in added)
    assert one is two
    assert one is not three
    assert three.orcid == orcids[1]
