"""The ledger is complete, and its evidence exists."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from exactformer.claims import PAPERS, Verdict, every, judge, ledger
from exactformer.experiments import Scale, find, names
from exactformer.experiments.engine.stored import stored_runs

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def numbered(kind, numbers):
    return [f"{kind} {number}" for number in numbers]


# Every numbered item of the texts at hand, and what the slides call by a name.
ITEMS = {
    "fang-2022": [
        *numbered("Figure", "123"),
        *numbered("Table", "123"),
        *numbered("Lemma", ("3.1", "3.3")),
        *numbered("Remark", ("3.2", "3.4", "3.6")),
        "Theorem 3.5",
        "Corollary 3.7",
        *numbered("Section", ("2.1", "2.2", "4", "5", "7")),
    ],
    "yun-2020": [
        *numbered("Figure", "123"),
        "Theorem, main result",
        "Claim: transformer blocks",
        "Lemma: approximation of generalized transformers",
        "Lemma: feedforward layers can quantize the cube",
        "Lemma: self-attention layers can express contextual mappings",
        "Lemma: feedforward layers can interpolate",
        "Definition: contextual mapping",
        "permutation equivariance",
        "Generalized transformers",
        "Simplification of the grid",
        "Position encoding",
        "Abstract",
    ],
    "jiang-li-2023": [
        *numbered("Figure", "123456"),
        *numbered("Table", "123"),
        "Theorem 4.1",
        *numbered("Proposition", ("6.1", "6.2", "6.3", "A.2", "B.1")),
        *numbered("Theorem", ("A.1", "A.3")),
        "Lemma A.4",
        *numbered("Section", ("4.1", "5.1", "5.2", "6.1", "6.2", "7")),
    ],
}
EQUATIONS = {"fang-2022": range(1, 2), "jiang-li-2023": range(1, 102)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_item_of_a_paper_has_a_row(paper):
    places = " · ".join(claim.place for claim in ledger(paper)).casefold()
    missing = [
        item
        for item in ITEMS[paper]
        if not re.search(rf"{re.escape(item.casefold())}(?!\d)", places)
    ]
    assert not missing


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_numbered_equation_belongs_to_a_row(paper):
    covered = set()
    for claim in ledger(paper):
        for part in re.findall(r"equations? [^;]*", claim.place):
            for first, last in re.findall(r"\((\d+)\)(?: to \((\d+)\))?", part):
                covered |= set(range(int(first), int(last or first) + 1))
    assert covered == set(EQUATIONS[paper])


@cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("claim", every(), ids=lambda claim: f"{claim.work}-{claim.id}")
def test_evidence_exists(claim):
    for test in [*claim.tests, *(test for one in claim.errata for test in one.tests)]:
        path, _, name = test.partition("::")
        assert name in functions_in(path), test
    for name in claim.experiments:
        assert name in names(), name
    for part in claim.conditions:
        stated = [one.text for one in find(part.result).statements]
        assert sum(text.startswith(part.statement) for text in stated) == 1, part.statement
    for value in claim.values:
        rows = {one.label for one in find(value.result).quantities_at(Scale.FULL)}
        assert {value.row, value.interval or value.row} <= rows


@pytest.fixture(scope="module")
def judged():
    runs = stored_runs(RESULTS)
    return {paper: [(claim, judge(claim, runs)) for claim in ledger(paper)] for paper in PAPERS}


def test_a_claim_without_evidence_gives_its_reason(judged):
    """Whatever is not tried says why, and never because a run is missing."""
    for claim, one in [pair for found in judged.values() for pair in found]:
        if one.verdict is Verdict.NOT_TRIED:
            assert one.why == claim.not_tried, claim.id


COUNTS = {
    "fang-2022": {
        "reproduced": 15,
        "corrected": 4,
        "holds on substitutes": 1,
        "numbers differ": 2,
        "beyond the paper": 4,
        "not tried": 3,
    },
    "yun-2020": {"reproduced": 17, "corrected": 3, "beyond the paper": 2, "not tried": 2},
    "jiang-li-2023": {
        "reproduced": 22,
        "corrected": 18,
        "holds on substitutes": 4,
        "numbers differ": 1,
        "not reproduced": 3,
        "beyond the paper": 1,
        "not tried": 7,
    },
}


def test_counts_by_paper_and_verdict(judged):
    counts = {
        paper: dict(Counter(str(one.verdict) for _, one in found))
        for paper, found in judged.items()
    }
    assert counts == COUNTS


@pytest.mark.parametrize(
    ("paper", "id", "verdict"),
    [
        ("fang-2022", "theorem-3-5", "corrected"),
        ("fang-2022", "table-1", "numbers differ"),
        ("fang-2022", "figure-3", "reproduced"),
        ("yun-2020", "abstract-alternatives", "not tried"),
        ("jiang-li-2023", "figure-1", "not reproduced"),
        ("jiang-li-2023", "figure-2", "holds on substitutes"),
        ("jiang-li-2023", "figure-3", "not reproduced"),
        ("jiang-li-2023", "table-1", "holds on substitutes"),
        ("jiang-li-2023", "table-2", "not reproduced"),
        ("jiang-li-2023", "figure-5", "holds on substitutes"),
        ("jiang-li-2023", "figure-6", "holds on substitutes"),
        ("jiang-li-2023", "vit-b-16", "not tried"),
        ("jiang-li-2023", "wmt14", "not tried"),
        ("jiang-li-2023", "rnn-rate", "corrected"),
    ],
)
def test_verdicts_that_readers_ask_for(judged, paper, id, verdict):
    (found,) = [one for claim, one in judged[paper] if claim.id == id]
    assert found.verdict == verdict
