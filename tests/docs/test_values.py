"""Numbers in prose come from stored runs: they are found, and what is not there raises."""

import json
import re
from pathlib import Path

import pytest
from docs.values import VALUE, number, value

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ROW = "RNN from PyTorch's start, reordered"


def test_a_row_is_its_mean_unless_a_column_is_named() -> None:
    rows = json.loads((ROOT / "results" / "jiang-table-2.json").read_text())["rows"]
    (row,) = (row for row in rows if row["label"] == ROW)
    assert number("jiang-table-2", ROW) == row["mean"]
    assert number("jiang-table-2", f"{ROW} / published") == row["published"]
    assert number("jiang-table-2", f"{ROW} ÷ {ROW} / published") == row["mean"] / row["published"]
    assert number("jiang-table-2", f"{ROW} minus {ROW}") == 0


def test_a_benchmark_is_read_key_by_key() -> None:
    data = json.loads((ROOT / "benchmarks" / "compiling.json").read_text())
    terms = {(row["case"], row["construction"]): row["terms"] for row in data["rows"]}
    assert number("compiling", "rows / dense 10 5, paper / terms") == terms["dense 10 5", "paper"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("jiang-table-9", ROW),
        ("jiang-table-2", "RNN, upside down"),
        ("jiang-table-2", f"{ROW} / colour"),
        ("jiang-table-2", f"{ROW} / label"),
        ("compiling", "rows / dense 10 5 / terms"),  # two constructions have this case
    ],
)
def test_what_is_not_there_raises(name: str, path: str) -> None:
    with pytest.raises(ValueError, match=r"neither|has no|not a number"):
        number(name, path)


def test_small_numbers_have_short_exponents() -> None:
    text = value("jiang-table-2", "RNN, original", ".0e")
    assert re.fullmatch(r"\de-\d\d", text)
    assert re.fullmatch(r"\de-\d", value("jiang-table-2", "transformer, original", ".0e"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_value_of_a_page_is_found(page: Path) -> None:
    for name, path, form in VALUE.findall(page.read_text()):
        assert value(name, path, form)
