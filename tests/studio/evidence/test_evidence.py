"""Evidence is what stored runs say; where there is none, the page says how to make it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from exactformer.studio.errors import NotFoundError
from exactformer.studio.evidence import evidence

RESULTS = Path(__file__).parents[3] / "results"
NAME = "yun-rate"


@pytest.mark.parametrize("folder", [None, Path("/nowhere")])
def test_without_a_stored_run_the_command_is_given(folder: Path | None) -> None:
    found = evidence.of(folder, NAME)
    assert (found.shown.verdict, found.shown.parts, found.result) == ("no stored run", (), None)
    assert found.shown.command == f"exactformer reproduce {NAME} --scale default"


def test_a_run_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.json"
    shutil.copy(RESULTS / path.name, path)
    assert "6 of 6 statements hold" in evidence.of(tmp_path, NAME).shown.counts
    content = json.loads(path.read_text())
    for cell in content["cells"]:
        cell["metrics"]["d_2"] = 9.0
    path.write_text(json.dumps(content))
    os.utime(path, ns=(1, 1))
    assert "6 of 6 statements hold" not in evidence.of(tmp_path, NAME).shown.counts


def test_a_damaged_run_is_no_run(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.json").write_text("{}")
    found = evidence.of(tmp_path, NAME)
    assert found.shown.verdict == "no stored run"
    assert "not a result" in found.shown.why


@pytest.mark.parametrize("part", ["provenance", "rows", "scale"])
def test_a_run_that_is_not_whole_is_no_run(tmp_path: Path, part: str) -> None:
    content = json.loads((RESULTS / f"{NAME}.json").read_text())
    (tmp_path / f"{NAME}.json").write_text(json.dumps(content | {part: "?"}))
    assert evidence.of(tmp_path, NAME).shown.verdict == "no stored run"


@pytest.mark.parametrize(
    "name", ["", "nothing", "../secret", "fang-table-1.json", "fang-table-1\0"]
)
def test_names_are_looked_up_and_never_put_together(name: str) -> None:
    with pytest.raises(NotFoundError):
        evidence.of(RESULTS, name)
    with pytest.raises(NotFoundError):
        evidence.figure(RESULTS, name, "png")


@pytest.mark.parametrize("kind", ["json", "", "png/../x", "pdf"])
def test_only_pictures_are_figures(kind: str) -> None:
    with pytest.raises(NotFoundError):
        evidence.figure(RESULTS, NAME, kind)


def test_a_figure_has_its_size() -> None:
    found = evidence.of(RESULTS, NAME)
    assert found.figures == ("png", "svg")
    assert evidence.figure(RESULTS, NAME, "png").read_bytes()[1:4] == b"PNG"
    assert found.figure_size is not None
    assert min(found.figure_size) > 200
