"""Every stored run names the commit that it is of, and that commit is in the history."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STORED = sorted([*(ROOT / "results").glob("*.json"), *(ROOT / "benchmarks").glob("*.json")])

PAGES = sorted((ROOT / "benchmarks").glob("*.md"))


def git(*words: str, folder: Path = ROOT) -> str:
    """Return what git prints, or nothing if it fails."""
    return subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def history() -> list[str]:
    if not shutil.which("git") or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here: a copy without its repository, or a shallow clone")
    return git("rev-list", "HEAD").split()


def entries(contents: object, name: str) -> Iterator[object]:
    """Every value of that name, however deep."""
    if isinstance(contents, dict):
        yield from (value for key, value in contents.items() if key == name)
    if isinstance(contents, dict | list):
        for part in contents.values() if isinstance(contents, dict) else contents:
            yield from entries(part, name)


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_stored_run_is_of_a_commit_in_the_history(path, history):
    contents = json.loads(path.read_text())
    commits = [*entries(contents, "commit")]
    assert commits
    for named in commits:
        assert re.fullmatch("[0-9a-f]{7,40}", named), named
        assert any(known.startswith(named) for known in history), named
    assert not any(entries(contents, "modified"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_of_a_benchmark_is_of_the_run_that_is_stored(page):
    stored = json.loads(page.with_suffix(".json").read_text())
    (named,) = set(entries(stored, "commit"))
    assert f"commit {named}," in page.read_text()
