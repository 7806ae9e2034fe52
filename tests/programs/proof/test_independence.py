"""The proof of programs and their construction share the statement, and what the page names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_layers import ROOT, closure

PAGES = Path(__file__).resolve().parents[3] / "docs/theory"
SEARCH = ("analysis", "aggregates", "differences", "selectors", "sets", "knowledge", "finding")


def named() -> set[str]:
    """Return the modules and packages that the trusted base says are shared, by their paths."""
    (row,) = [
        line
        for page in PAGES.glob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("| programs, shared with their construction")
    ]
    found: set[str] = set()
    folder = ""
    for word in re.findall(r"`([\w/]+)`", row):
        if word.endswith("/"):
            folder = word
        else:
            found.add(word if "/" in word else f"{folder}{word}")
    return found


def files(*places: Path) -> set[str]:
    """Return all modules that some import, directly or through others."""
    paths = [p for place in places for p in (place.rglob("*.py") if place.is_dir() else [place])]
    known = set().union(*(closure(path) for path in paths))
    return {str(path.relative_to(ROOT).with_suffix("")) for path in known}


def test_a_proof_shares_with_a_construction_what_the_trusted_base_names() -> None:
    programs = ROOT / "programs"
    made = files(programs / "constructions", *(programs / f"{name}.py" for name in SEARCH))
    assert {f"programs/{name}" for name in SEARCH} <= made
    shared = files(programs / "proof") & made
    modules = {name for name in shared if not name.endswith("__init__")}
    packages = {name for name in named() if (ROOT / name).is_dir()}
    assert {name for name in modules if name.split("/")[0] not in packages} == named() - packages


def test_a_proof_imports_nothing_of_the_search() -> None:
    known = files(ROOT / "programs/proof")
    assert not {name for name in known if name in {f"programs/{part}" for part in SEARCH}}
