"""Pages of the site: paths that exist, pictures that are there, code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import hooks, pictures

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)#]+)[^)]*\)")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
QUESTIONS = [line for line in ARCHITECTURE.splitlines() if line.startswith("- ") and "?" in line]


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
