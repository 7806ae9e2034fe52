"""One number of a stored result decides badge, page, errata and README, and all at once."""

import json
import shutil
from pathlib import Path

import pytest

from docs import claims
from exactformer.claims import Verdict, judge, ledger
from exactformer.experiments import find
from exactformer.experiments.engine.result import load
from exactformer.experiments.engine.stored import stored_runs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", claims.PAGES, ids=lambda page: page.stem)
def test_what_is_made_from_the_ledger_is_as_it_would_be_made_now(page: Path) -> None:
    text = page.read_text()
    assert claims.made(text) == text, "python docs/claims.py writes it anew"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The stored results with σ₁ of appendix D.3 as the paper prints it."""
    results = tmp_path / "results"
    shutil.copytree(ROOT / "results", results, ignore=shutil.ignore_patterns("*.png", "*.svg"))
    path = results / "jiang-mixing.json"
    content = json.loads(path.read_text())
    (row,) = [row for row in content["rows"] if row["label"] == "σ_1 after mixing"]
    row["values"] = [1.265]
    path.write_text(json.dumps(content))
    return results


def test_a_number_that_changes_changes_every_page_about_it(changed: Path) -> None:
    before, after = ROOT / "results", changed
    (claim,) = [one for one in ledger("jiang-li-2023") if one.id == "appendix-d-3"]
    badges = [judge(claim, stored_runs(folder)).verdict for folder in (before, after)]
    assert badges == [Verdict.NUMBERS_DIFFER, Verdict.REPRODUCED]
    rows = [
        load(folder / "jiang-mixing.json", find("jiang-mixing")).summary.row("σ_1 after mixing")
        for folder in (before, after)
    ]
    assert [row.verdict for row in rows] == badges
    for page in ("README.md", "docs/theory/errata.md", "docs/reproductions/index.md"):
        text = (ROOT / page).read_text()
        assert claims.made(text, before) == text
        assert claims.made(text, after) != text
