"""The library begins with the four works, once, and every stored run speaks to a claim of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from exactformer.experiments.engine.result import load
from exactformer.experiments.registry import find, names
from exactformer.studio.evidence import claims, evidence
from exactformer.studio.library import papers, seeds
from exactformer.studio.library.catalogue import store
from exactformer.studio.library.records import checked
from exactformer.studio.library.seeds import references, work
from exactformer.studio.library.tables import Citation, Claim, Paper, Person
from exactformer.studio.web import markup

RESULTS = Path(__file__).parents[3] / "results"
STORED = sorted(path.stem for path in RESULTS.glob("*.json"))
CLAIMED = [claim for name in seeds.NAMES for claim in work(name).claims]


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


@pytest.mark.parametrize("experiment", STORED)
def test_every_stored_run_is_tied_to_a_claim(experiment: str) -> None:
    assert experiment in {claim.experiment for claim in CLAIMED}


@pytest.mark.parametrize("experiment", STORED)
def test_the_status_on_the_page_is_the_engines_verdict(experiment: str) -> None:
    shown = evidence.of(RESULTS, experiment)
    result = load(RESULTS / f"{experiment}.json", find(experiment))
    assert shown.result is not None
    assert (shown.shown.verdict, shown.shown.why) == (str(result.verdict), result.why)
    assert shown.result.statements == result.statements
    assert shown.shown.command == result.provenance.command


@pytest.mark.parametrize("name", seeds.NAMES)
def test_claims_are_whole(name: str) -> None:
    record = work(name)
    anchors = [claim.anchor for claim in record.claims]
    assert len(set(anchors)) == len(anchors) > 0
    for claim in record.claims:
        assert claim.experiment in {*names(), None}
        assert claim.experiment or claim.checked_by, claim.anchor
        assert "$" not in markup.render(claim.statement)  # all of it has become mathematics


def test_files_that_claims_name_as_checks_exist() -> None:
    root = RESULTS.parent
    named = {
        word.rstrip(".,;:)")
        for claim in CLAIMED
        for word in claim.checked_by.replace("(", " ").split()
        if word.startswith("tests/")
    }
    assert named
    assert [path for path in named if not (root / path).exists()] == []


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


def test_a_claim_of_an_unknown_experiment_has_no_evidence() -> None:
    claim = Claim(anchor="a", kind="table", title="A", experiment="made-up", checked_by="")
    assert evidence.of_claim(RESULTS, claim.experiment) is None
    assert claims.ClaimView(claim, None).status == "not checked"
