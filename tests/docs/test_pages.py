"""Pages of the site: paths that exist, pictures that are there, code that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import hooks, pictures

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)#]+)[^)]*\)")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
QUESTIONS = [line for line in ARCHITECTURE.splitlines() if line.startswith("- ") and "?" in line]


@pytest.fixture(scope="module", autouse=True)
def _interpreters_import_little() -> Iterator[None]:
    hooks.start_interpreters("json")
    yield
    hooks.end_interpreters()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q[2 : q.index("?")])
def test_the_answers_to_a_stranger_are_paths_that_exist(question: str) -> None:
    paths = re.findall(r"`([\w./-]*/[\w./-]*)`", question)
    assert paths or "`exactformer." in question
    folders = [ROOT, ROOT / "src" / "exactformer", ROOT / "src" / "exactformer" / "experiments"]
    for path in paths:
        assert any((folder / path).exists() for folder in folders), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_show_in_the_repository(page: Path) -> None:
    for image in IMAGE.findall(page.read_text()):
        assert (page.parent / image).exists(), image
        if image.endswith("-light.png"):
            assert (page.parent / image.replace("-light", "-dark")).exists(), image


def test_the_gallery_is_that_of_the_files_present() -> None:
    said = "python docs/pictures.py writes it anew"
    assert (ROOT / "docs" / "gallery.md").read_text() == pictures.gallery(), said


def test_an_output_that_a_script_does_not_print_is_refused() -> None:
    right = "```python run\nprint(1 + 1)\n```\n\n```text\n2\n```"
    assert hooks._executed(right) == right.replace("python run", "python")
    with pytest.raises(RuntimeError, match="prints"):
        hooks._executed(right.replace("\n2\n", "\n3\n"))


def test_a_script_is_run_as_an_interpreter_of_its_own_would_run_it(tmp_path: Path) -> None:
    code = "import sys; name = __name__; print(name, sys.argv, [*sys.stdin]); sys.exit(3)"
    done, plain = (
        hooks._python(["-c", code, "a"], tmp_path),
        subprocess.run(
            [sys.executable, "-c", code, "a"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        ),
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, plain.stdout, plain.stderr)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        hooks._executed("```python run\n1 / 0\n```")
    assert "name" not in hooks._python(["-c", "print(dir())"], tmp_path).stdout.split()
