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


def test_the_readme_counts_the_claims_as_they_are():
    text = (ROOT / "README.md").read_text()
    assert claims.BLOCK.search(text)
    assert claims.readme(text) == text, "python docs/claims.py writes it anew"


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
    readme = (ROOT / "README.md").read_text()
    errata = (ROOT / "docs/theory/errata.md").read_text()
    page = (ROOT / "docs/reproductions/index.md").read_text()
    for made in (
        lambda folder: claims.readme(readme, folder),
        lambda folder: claims.filled(errata, folder),
        lambda folder: claims.filled(page, folder),
    ):
        old, new = made(before).splitlines(), made(after).splitlines()
        assert len(old) == len(new)
        assert [(a, b) for a, b in zip(old, new, strict=True) if a != b]


def test_a_claim_that_is_not_there_is_no_macro() -> None:
    assert claims.filled("{{ verdict: fang-2022/theorem-3-5 }}") == "corrected"
    with pytest.raises(ValueError, match="not a claim"):
        claims.filled("{{ verdict: fang-2022/theorem-9 }}")
