"""A sentence that claims much names its evidence; the check sees what it should, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import marks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_claim_of_a_page_names_its_evidence(page: Path) -> None:
    assert marks.unmarked(page.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "This is proven.",
        "The proofs are independent.",
        "Table 1 is reproduced.",
        "It takes 3 ms.",
        "It is 40 % smaller.",
        "It is 3× faster.",
        "The error is 1e-9.",
        "The error is 10⁻⁹.",
        "- a list\n- with 40 % in it",
        "| a | b |\n|---|---|\n| c | 1e-9 |",
    ],
)
def test_what_claims_much_needs_a_mark(text: str) -> None:
    (found,) = marks.unmarked(f"# Page\n\n{text}\n")
    assert found
    assert marks.unmarked(f"# Page\n\n<!-- by L5 -->\n\n{text}\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "It proves itself in use, and 3 of 4 hold.",
        "`tolerance=1e-9` is an option.",
        "```text\nproven: 1e-9\n```",
        "<!-- made: counts ledger -->\n\n| reproduced | 1e-9 |\n\n<!-- end -->",
        "The error is {{ value: jiang-table-2 | transformer, original | .0e }}, or 1e-9.",
        "This is proven. <!-- by fang-2022/theorem-3-5, L3 -->",
    ],
)
def test_code_and_what_is_made_or_marked_needs_none(text: str) -> None:
    assert marks.unmarked(f"# Page\n\n{text}\n") == []


@pytest.mark.parametrize(
    "name", ["L99", "fang-2022/theorem-9", "tests/docs/test_marks.py::test_nothing", "hearsay"]
)
def test_a_mark_that_names_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names no"):
        marks.unmarked(f"# Page\n\nThis is proven. <!-- by {name} -->\n")
