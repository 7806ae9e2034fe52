"""The library: nothing is assumed in it, and it is shipped whole."""

import re
import subprocess
from pathlib import Path

import pytest

from exactformer.coq import check
from exactformer.coq.check import compiled
from exactformer.coq.installation import (
    LIBRARY,
    ROUNDING,
    Coq,
    built_library,
    built_rounding,
    copy_library,
    sources,
)
from exactformer.errors import InputError

FOLDER = Path(__file__).parent
CLOSED = "Closed under the global context"
KINDS = {
    **dict.fromkeys(("Cells", "Inputs", "Schedules"), "closed"),
    **dict.fromkeys(("Running", "Selection", "Soundness"), ""),
    **dict.fromkeys(("Logistic", "SoftSoundness", "rounding/Rounding"), "_softmax"),
}
"""By the file of a theorem: which axioms it rests on."""


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


@pytest.mark.parametrize("harm", [lambda path: path.write_text("other"), Path.unlink])
def test_an_altered_build_is_built_again(harm, monkeypatch, tmp_path):
    def compile_(self, file, library, timeout=None, rounding=None):
        file.with_suffix(".vo").write_text(f"compiled {file.name}")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(Coq, "compile", compile_)
    monkeypatch.setenv("EXACTFORMER_CACHE", str(tmp_path))
    folder = built_library(Coq("coqc", "8.16.1"))
    harm(folder / "Semantics.vo")
    (folder / "trace").touch()
    assert built_library(Coq("coqc", "8.16.1")) == folder
    assert (folder / "Semantics.vo").read_text() == "compiled Semantics.v"
    assert not (folder / "trace").exists()


def test_every_theorem_rests_on_the_stored_axioms(coq):
    """What Coq says that the theorems assume, none of them left out."""
    assert_assumptions(coq, LIBRARY)


def test_theorems_about_rounding_rest_on_the_stored_axioms(flocq):
    assert_assumptions(flocq, [f"rounding/{name}" for name in ROUNDING])


def assert_assumptions(coq, names):
    """Ask for the axioms of all theorems of a kind at once: one walk through what they rest on."""
    theorems: dict[str, list[str]] = {}
    for name in names:
        for theorem in re.findall(r"^ *Theorem (\w+)", sources()[f"{name}.v"], re.MULTILINE):
            theorems.setdefault(KINDS[name], []).append(f"@{_module(name)}.{theorem}")
    text = f"Require {' '.join(map(_module, names))}.\n"
    for number, of_a_kind in enumerate(theorems.values()):
        text += f"Definition all_{number} := ({', '.join(of_a_kind)}).\n"
        text += f"Print Assumptions all_{number}.\n"
    answer = compiled(coq, text)
    assert answer.returncode == 0, answer.stderr
    stored = {
        kind: (FOLDER / f"assumptions{kind}.txt").read_text().strip() for kind in ("", "_softmax")
    }
    wanted = [stored.get(kind, CLOSED) for kind in theorems]
    assert answer.stdout.split() == " ".join(wanted).split()  # lines are broken in several ways


def _module(name):
    return f"Exactformer.{name.replace('/', '.')}"


@pytest.mark.slow
def test_the_independent_checker_accepts_the_library(flocq):
    """``coqchk`` reads the compiled files anew: all of ours, Coq's real numbers and Flocq.

    Coq's integers and what they rest on are taken as compiled: they are most of the time of a check of
    everything. One of their modules hides definitions, which would count as axioms, and is checked.
    """
    command = ["coqchk", "-o", "-Q", str(built_library(flocq)), "Exactformer"]
    command += ["-Q", str(built_rounding(flocq)), "Exactformer.rounding"]
    command += ["-admit", "Coq.ZArith.ZArith", "-norec", "Coq.ssr.ssrunder"]
    names = {f"Exactformer.{name}" for name in LIBRARY}
    names |= {f"Exactformer.rounding.{name}" for name in ROUNDING}
    answer = subprocess.run([*command, *sorted(names)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    told = answer.stdout + answer.stderr
    checked = set(re.findall(r"^Checking library: (\S+)$", told, re.MULTILINE))
    assert checked >= {*names, "Flocq.Core.Round_NE", "Flocq.Prop.Relative", "Coq.Reals.Reals"}
    axioms = told[told.index("* Axioms") : told.index("* Constants")]
    assert set(re.findall(r"^ +\w+\.\w+\.(\S+)$", axioms, re.MULTILINE)) == check._SOFT_AXIOMS
    assert (
        told.count(": <none>") == 3
    )  # no type in types, no unsafe fixpoint, no assumed positivity
