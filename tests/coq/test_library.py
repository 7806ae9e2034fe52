"""The library: nothing is assumed in it, and it is shipped whole."""

import re
import subprocess
from pathlib import Path

import pytest

from exactformer.coq.check import compiled
from exactformer.coq.installation import LIBRARY, built_library, copy_library, sources
from exactformer.errors import InputError

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("name", LIBRARY)
def test_nothing_is_assumed(name):
    code = re.sub(r"\(\*.*?\*\)", "", sources()[f"{name}.v"], flags=re.DOTALL)
    words = (
        r"Admitted|admit|Axioms?|Parameters?|Conjecture|Abort|bypass_check|Unset\s+\w+\s+Checking"
    )
    assert not re.search(rf"\b({words})\b", code)


def test_the_semantics_uses_nothing_of_the_library():
    assert "Exactformer" not in sources()["Semantics.v"]
    assert "Exactformer" not in sources()["HardAttention.v"]
    for name in ("Rasp.v", "Grids.v"):
        assert re.findall(r"From Exactformer .*", sources()[name]) == [
            "From Exactformer Require Import HardAttention."
        ]
    assert re.findall(r"From Exactformer (.*)", sources()["Softmax.v"]) == [
        "Require Import Semantics."
    ]


def test_a_file_needs_only_earlier_ones():
    for place, name in enumerate(LIBRARY):
        for line in re.findall(
            r"From Exactformer Require .*?\.\s", sources()[f"{name}.v"], re.DOTALL
        ):
            needed = re.findall(r"\w+", line)[3:]
            assert set(needed) - {"Import", "Export"} <= set(LIBRARY[:place])


def test_the_makefile_builds_every_file():
    assert f"FILES = {' '.join(LIBRARY)}\n" in sources()["Makefile"]


def test_the_library_is_copied_whole_and_replaces_nothing(tmp_path):
    copied = copy_library(tmp_path / "library")
    folder = tmp_path / "library"
    assert {str(path.relative_to(folder)): path.read_text() for path in copied} == sources()
    with pytest.raises(InputError, match="not an empty folder"):
        copy_library(tmp_path / "library")


def test_the_library_is_built_once(coq):
    first = built_library(coq)
    assert coq.version in first.name
    made = {path: path.stat().st_mtime_ns for path in first.glob("*.vo")}
    assert len(made) == len(LIBRARY)
    assert built_library(coq) == first
    assert {path: path.stat().st_mtime_ns for path in first.glob("*.vo")} == made


def test_every_theorem_rests_on_the_stored_axioms(coq):
    """The theorems that others use, and what Coq says they assume."""
    text = (
        "From Exactformer Require Import Selection Soundness Running.\n"
        "Print Assumptions sound.\nPrint Assumptions selection_ok.\nPrint Assumptions qrun_ok.\n"
    )
    text += "From Exactformer Require Import SoftSoundness.\nPrint Assumptions soft_sound.\n"
    answer = compiled(coq, text)
    assert answer.returncode == 0, answer.stderr
    stored, soft = (
        (FOLDER / f"assumptions{kind}.txt").read_text().strip() for kind in ("", "_softmax")
    )
    assert answer.stdout.strip() == "\n".join([*[stored] * 3, soft])


@pytest.mark.slow
def test_the_independent_checker_accepts_the_library(coq):
    """``coqchk`` reads the compiled files anew, Coq's own library included."""
    command = ["coqchk", "-silent", "-o", "-Q", str(built_library(coq)), "Exactformer"]
    proven = ("Soundness", "Running", "SoftSoundness", "Schedules", "Cells")
    names = [f"Exactformer.{name}" for name in proven]
    answer = subprocess.run([*command, *names], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    told = answer.stdout + answer.stderr
    assert "Exactformer" not in told[told.index("* Axioms") :]
