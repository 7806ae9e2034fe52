"""Coq on this machine, and the library built for it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from exactformer.core.folders import cache_folder
from exactformer.errors import ExecutionError, InputError

# In the order in which they are built: a file needs only earlier ones.
LIBRARY = (
    "Semantics",
    "Rationals",
    "OneVariable",
    "Tokens",
    "Domains",
    "Selection",
    "Identity",
    "Checker",
    "Soundness",
    "Laws",
    "Running",
    "Softmax",
    "Logistic",
    "SoftChecker",
    "SoftSoundness",
    "SoftLaws",
    "HardAttention",
    "Rasp",
    "Inputs",
    "Tallies",
    "States",
    "Schedules",
    "Programs",
    "Grids",
    "Cells",
)


_BUILT = "built.json"
"""The digests of the compiled files, in their folder."""

# In the folder "rounding": these need Flocq besides.
ROUNDING = ("Floats", "Summation", "Clenshaw", "Rounding", "RoundingLaws")


@dataclass(frozen=True)
class Coq:
    """The compiler of an installation, ``coqc`` or ``rocq``, with its version."""

    compiler: str
    version: str

    def compile(
        self,
        file: Path,
        library: Path,
        timeout: float | None = None,
        rounding: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Compile a file in its own folder, against a built library and that of rounding."""
        command = [self.compiler, *(["compile"] if Path(self.compiler).name == "rocq" else [])]
        command += ["-q", "-Q", str(library), "Exactformer"]
        if rounding is not None:
            command += ["-Q", str(rounding), "Exactformer.rounding"]
        command.append(file.name)
        return subprocess.run(
            command, cwd=file.parent, capture_output=True, text=True, timeout=timeout, check=False
        )


def find_coq() -> Coq:
    """Return the Coq of this machine.

    Raises:
        InputError: if there is none.
    """
    compiler = shutil.which("coqc") or shutil.which("rocq")
    if compiler is None:
        raise InputError(
            "there is no coqc and no rocq on this machine; install Coq 8.16 or later "
            "(Debian: apt-get install coq), or check the file elsewhere"
        )
    answer = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"version (\d+(?:\.\d+)*)", answer.stdout)
    if version is None:
        raise ExecutionError(f"{compiler} --version answered {answer.stdout[:200]!r}")
    return Coq(compiler, version[1])


def sources() -> dict[str, str]:
    """Return the files of the library by name."""
    folder = files("exactformer.coq") / "library"
    names = [*(f"{name}.v" for name in LIBRARY), "Makefile"]
    names += [f"rounding/{name}.v" for name in ROUNDING]
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def copy_library(folder: Path) -> list[Path]:
    """Write the sources of the library into a folder, which must be new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder; choose another place")
    (folder / "rounding").mkdir(parents=True, exist_ok=True)
    for name, text in sources().items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in sources()]


def built_library(coq: Coq) -> Path:
    """Return the folder of the library built for this Coq; build it first where that was not done.

    The folder's name contains the version of Coq and a digest of the sources. Where a compiled file was
    altered or removed, all are built again.
    """
    return _built("", coq, lambda folder: _build(coq, folder, LIBRARY))


def built_rounding(coq: Coq) -> Path:
    """Return the folder of the files about rounding, built on the library where that was not done.

    Raises:
        InputError: if Coq finds no Flocq.
    """
    library = built_library(coq)
    folder = _built("-rounding", coq, lambda fresh: _build_rounding(coq, fresh, library))
    return folder / "rounding"


def _built(part: str, coq: Coq, build: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(repr(sorted(sources().items())).encode()).hexdigest()
    place = cache_folder("coq") / f"{coq.version}-{digest[:16]}{part}"
    if _is_whole(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        fresh = Path(temporary) / "library"
        copy_library(fresh)
        build(fresh)
        (fresh / _BUILT).write_text(json.dumps(_digests(fresh)), encoding="utf-8")
        try:
            if place.is_dir() and not _is_whole(place):
                os.replace(place, Path(temporary) / "altered")
            os.replace(fresh, place)
        except OSError:  # another process was quicker
            if not _is_whole(place):
                raise
    return place


def _is_whole(folder: Path) -> bool:
    """Whether a folder holds the compiled files that were made in it, unaltered."""
    try:
        made = json.loads((folder / _BUILT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(made == _digests(folder))


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.vo")
    }


def _build(coq: Coq, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        _accept(coq, name, coq.compile(folder / f"{name}.v", folder))


def _build_rounding(coq: Coq, fresh: Path, library: Path) -> None:
    folder = fresh / "rounding"
    for name in ROUNDING:
        answer = coq.compile(folder / f"{name}.v", library, rounding=folder)
        if answer.returncode and "Flocq" in answer.stderr and name == ROUNDING[0]:
            raise InputError(
                f"Coq {coq.version} finds no Flocq, on which theorems about rounding rest; install it "
                "(Debian: apt-get install libcoq-flocq), or leave rounding out"
            )
        _accept(coq, name, answer)


def _accept(coq: Coq, name: str, answer: subprocess.CompletedProcess[str]) -> None:
    if answer.returncode:
        raise ExecutionError(
            f"Coq {coq.version} does not accept {name}.v of the library:\n{answer.stderr[-2000:]}"
        )
