"""The library begins with the four works, once, and every stored run speaks to a claim of theirs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.claims import every, judge
from exactformer.experiments.engine.stored import stored_runs
from exactformer.studio.evidence import claims, sources
from exactformer.studio.library import papers, seeds
from exactformer.studio.library.catalogue import store
from exactformer.studio.library.records import checked
from exactformer.studio.library.seeds import references, work
from exactformer.studio.library.tables import Citation, Claim, Paper, Person
from exactformer.studio.web import markup

RESULTS = Path(__file__).parents[3] / "results"


def number(db: Session, table: type[Paper] | type[Citation] | type[Person]) -> int:
    return db.scalar(select(func.count()).select_from(table)) or 0


def test_the_four_works_come_with_what_they_cite(library: Session) -> None:
    assert seeds.seed(library) == list(seeds.NAMES)
    fang, yun, jiang, talk = seeds.featured(library)
    counted = papers.counts(library, [fang.id, yun.id, jiang.id, talk.id])
    assert [counted[paper.id].references for paper in (fang, yun, jiang, talk)] == [17, 0, 31, 1]
    assert counted[yun.id].citations == 3
    shared = {"Attention is all you need", "Are Transformers universal approximators"}
    cited = {paper.title for paper in papers.references(library, fang.id).items}
    cited &= {paper.title for paper in papers.references(library, jiang.id).items}
    assert all(any(title.startswith(one) for title in cited) for one in shared)


def test_two_works_of_one_title_stay_two(library: Session) -> None:
    seeds.seed(library)
    titles = select(Paper.year).where(Paper.title == "Deep learning").order_by(Paper.year)
    assert library.scalars(titles).all() == [2015, 2016]


def test_later_starts_change_nothing(library: Session) -> None:
    seeds.seed(library)
    before = [number(library, table) for table in (Paper, Citation, Person)]
    fang = seeds.featured(library)[0]
    fang.title, fang.arxiv_id = "Renamed", None
    assert seeds.seed(library) == []
    assert [number(library, table) for table in (Paper, Citation, Person)] == before
    assert seeds.featured(library)[0].title == "Renamed"


def test_claims_of_a_newer_version_are_added_in_their_turn(library: Session) -> None:
    seeds.seed(library)
    fang = papers.get(library, seeds.featured(library)[0].slug)
    last = fang.claims.pop()
    library.flush()
    seeds.seed(library)
    library.expire_all()
    again = papers.get(library, fang.slug).claims
    assert (again[-1].anchor, len(again)) == (last.anchor, len(work("fang-2022").claims))


def test_a_work_that_was_there_before_is_adopted(library: Session) -> None:
    store(library, [checked({"title": "Zero error", "arxiv_id": "2202.12166"}, "made")])
    seeds.seed(library)
    fang = papers.get(library, seeds.featured(library)[0].slug)
    assert (fang.title, len(fang.claims)) == ("Zero error", len(work("fang-2022").claims))


@pytest.mark.parametrize("name", seeds.NAMES)
def test_the_badge_on_the_page_is_the_ledgers_verdict(library: Session, name: str) -> None:
    seeds.seed(library)
    runs = stored_runs(RESULTS)
    expected = {
        claim.id: str(judge(claim, runs).verdict) for claim in every() if claim.work == name
    }
    paper = papers.get(library, seeds.seeded(library)[name].slug)
    shown = claims.views(paper, RESULTS)
    assert {view.claim.anchor: view.status for view in shown} == expected
    tallied = {status: many for status, _, many in claims.tally(shown)}
    assert tallied == Counter(expected.values())
    found = [
        claims.find(library, claims.Wanted(status=s, paper=paper.slug), RESULTS) for s in tallied
    ]
    assert [slice.total for slice in found] == [*tallied.values()]


@pytest.mark.parametrize("name", seeds.NAMES)
def test_claims_are_whole(name: str) -> None:
    record = work(name)
    anchors = [claim.anchor for claim in record.claims]
    assert len(set(anchors)) == len(anchors) > 0
    for claim in record.claims:
        assert claim.ledger in claims.entries()
        assert "$" not in markup.render(claim.statement)  # all of it has become mathematics


def test_files_that_the_ledger_names_can_be_read_here() -> None:
    assert len(sources.files()) > 20
    assert all(path.is_file() for path in sources.files().values())


def test_reference_lists_have_authors_titles_and_years() -> None:
    for record in (*references("fang-2022"), *references("jiang-li-2023")):
        assert record.authors
        assert record.year
        assert not record.title.endswith(".")


def test_pages_count_what_came_of_the_claims(library: Session) -> None:
    seeds.seed(library)
    for paper in seeds.featured(library):
        views = claims.views(papers.get(library, paper.slug), RESULTS)
        assert sum(many for _, _, many in claims.tally(views)) == len(views)


def test_a_claim_that_the_ledger_does_not_have_is_not_tried() -> None:
    claim = Claim(anchor="a", kind="table", title="A", statement="", ledger="made-up/a")
    view = claims.view(claim, RESULTS)
    assert (view.status, view.evidence, view.basis) == ("not tried", None, "")
