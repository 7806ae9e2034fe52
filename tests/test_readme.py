"""The README: its code prints what it shows, its commands run, its links lead to readable pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from exactformer.cli.app import app
from tests.polynomials.proof.test_rounding import NOT_VACUOUS
from tests.spectra import families

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
LINKS = re.findall(r"\]\(([^)#]+)\)", README)
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if line.startswith("exactformer ")
]


def test_the_code_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code = "".join(block for language, block in BLOCKS if language == "python")
    shown = "".join(block for language, block in BLOCKS if language == "text")
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_every_block_is_code_its_output_or_commands() -> None:
    kinds = [language for language, _ in BLOCKS]
    assert set(kinds) == {"python", "text", "sh"}
    for place, kind in enumerate(kinds):
        assert kind != "python" or kinds[place + 1] == "text"
        assert kind != "text" or kinds[place - 1] == "python"
    for block in (block for language, block in BLOCKS if language == "sh"):
        assert all(line.startswith(("make ", "exactformer ")) for line in block.splitlines())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README's commands name."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "points.csv").write_text("x,y\n0.5,1\n1,-1\n")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = x[:, 0] ** 2 - 3 * x[:, 0] * x[:, 1]
    rows = np.column_stack([x, y]).tolist()
    (folder / "data.csv").write_text("a,b,y\n" + "\n".join(",".join(map(str, r)) for r in rows))
    (folder / "sentences.txt").write_text("a cat sat on the mat\nthe mat sat\n")
    return folder


@pytest.fixture(scope="module")
def bert(files: Path) -> Path:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = files / "path" / "to" / "model"
    families.build(families.bert)[0].save_pretrained(folder)  # type: ignore[operator]
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat".split()
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_commands_run(
    command: list[str],
    files: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command[0] == "spectrum":
        request.getfixturevalue("bert")
    if command[0] == "serve":  # it would not end; tests/cli/test_serve.py starts it
        command = [*command, "--help"]
    monkeypatch.chdir(files)
    if "law.safetensors" in command[1]:
        assert CliRunner().invoke(app, [*COMMANDS[0], "--force"]).exit_code == 0
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)):
        assert f"\n{target}:" in makefile, target


def test_links_lead_to_pages_that_read_well_in_the_repository() -> None:
    for link in LINKS:
        assert (ROOT / link).exists(), link
        if link.startswith("docs/") and link.endswith(".md"):
            assert "{{" not in (ROOT / link).read_text(), f"{link} shows macros"


def test_the_six_readers_have_a_link_each() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| ") and "**" in line]
    assert len(rows) == 6
    assert all(re.search(r"\]\(docs/[^)]+\.md\)", row) for row in rows)


def test_the_factor_is_that_of_the_tests() -> None:
    assert f"at most {NOT_VACUOUS} times the largest error seen" in README
