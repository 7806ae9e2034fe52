"""Benchmark tables: shown in the terminal, kept as Markdown and JSON beside the scripts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import exactformer

HERE = Path(__file__).parent


def commit(folder: Path) -> str:
    """Return the commit of what is measured, marked where files differ from it."""
    head = _git(folder, "rev-parse", "--short=7", "HEAD")
    source = (":/src", ":/benchmarks/*.py")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *source)
    return (head or "unknown") + (", modified" if changed else "")


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, cwd=folder
    ).stdout.strip()


COMMIT = commit(HERE)
"""Taken when a run begins: files may have moved on by its end."""


def write(
    name: str, title: str, note: str, rows: list[dict[str, Any]], stored: bool = True
) -> None:
    """Print rows as a table and, where it is to be stored, write NAME.md and NAME.json."""
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    show(title, columns, cells)
    if not stored:
        return
    run = provenance(name, ("exactformer", "torch", "numpy"))
    parts = [note, "", *markdown(columns, cells), "", origin(run)]
    keep(name, title, parts, {"note": note, "provenance": run, "rows": rows})


def show(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table in the terminal."""
    table = Table(*columns, title=title)
    for line in cells:
        table.add_row(*line)
    Console(width=160).print(table)


def markdown(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of Markdown."""
    rule = ["---"] * len(columns)
    return ["| " + " | ".join(line) + " |" for line in (_escaped(columns), rule, *cells)]


def keep(name: str, title: str, parts: Sequence[str], contents: dict[str, Any]) -> None:
    """Write NAME.md, a page of these lines, and NAME.json."""
    (HERE / f"{name}.md").write_text("\n".join([f"# {title}", "", *parts, ""]))
    text = json.dumps(contents, indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n")


def provenance(name: str, packages: Sequence[str]) -> dict[str, Any]:
    """Say what ran, when, on what: the load too, since other work makes every time longer."""
    return {
        "command": f"python -m benchmarks.{name}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": COMMIT,
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 2),
        "versions": {package: _version(package) for package in packages},
    }


def origin(run: dict[str, Any]) -> str:
    """Return a line of provenance."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    return (
        f"`{run['command']}`, {run['date'][:10]}, commit {run['commit']}, {run['machine']}, "
        f"load {run['load']:g} at the end; {versions}."
    )


def processor() -> str:
    """Return the processor's name where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _escaped(texts: Sequence[str]) -> list[str]:
    return [text.replace("|", "\\|") for text in texts]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # our own may be a copy that is not installed
        return exactformer.__version__ if package == "exactformer" else "absent"


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
