"""Where a result comes from: enough to run it again, nothing about who ran it."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.code_version import versions
from exactformer.experiments.engine.experiment import Scale


@dataclass(frozen=True)
class Provenance:
    """How, by what, on what and when a result was made.

    ``seconds`` is the cost: the sum over all cells, whichever run finished them. ``wall_seconds``
    is the last run alone, which found ``kept`` of the ``cells`` finished already. ``modified`` says
    that the source differed from ``commit``; ``code`` is the digest that keys the cells.
    """

    command: str
    version: str
    commit: str | None
    modified: bool | None
    code: str
    seeds: tuple[Any, ...]
    device: str
    date: str
    seconds: float
    wall_seconds: float
    cells: int
    kept: int
    python: str
    torch: str
    numpy: str


def record(
    command: str, code: str, cells: Sequence[Cell], kept: int, wall_seconds: float
) -> Provenance:
    """Return the provenance of a run that ends now."""
    libraries = versions()
    commit, modified = git_state(Path(__file__).parent)
    return Provenance(
        command=command,
        version=libraries.pop("exactformer"),
        commit=commit,
        modified=modified,
        code=code,
        seeds=tuple(sorted({cell.seed for cell in cells if cell.seed is not None})),
        device=", ".join(sorted({cell.hardware for cell in cells})),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=sum(cell.seconds for cell in cells),
        wall_seconds=wall_seconds,
        cells=len(cells),
        kept=kept,
        **libraries,
    )


def command_line(name: str, scale: Scale, device: str, jobs: int | None = None) -> str:
    """Return the command that makes this result, free of local paths.

    Processes that share a GPU are part of it, since they change times.
    """
    kind = device.partition(":")[0]
    options = "" if kind == "cpu" else f" --device {kind}" + (f" --jobs {jobs}" if jobs else "")
    return f"exactformer reproduce {name} --scale {scale}{options}"


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the source in ``folder`` and whether files differ from it."""
    # A copy without its repository (on a borrowed machine, say) can be told what it is a copy of.
    if told := os.environ.get("EXACTFORMER_COMMIT"):
        return told, None
    # An installed copy may lie inside someone else's repository: only tracked source counts.
    if _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None, None
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/src")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
