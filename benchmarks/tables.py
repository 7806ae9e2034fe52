"""Benchmark tables: shown in the terminal, kept as Markdown and JSON beside the scripts."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def write(name: str, title: str, note: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table and write them to NAME.md and NAME.json."""
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    table = Table(*columns, title=title)
    for line in cells:
        table.add_row(*line)
    Console(width=140).print(table)
    origin = (
        f"`python -m benchmarks.{'compiling' if name == 'evaluating' else name}`, "
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores; exactformer "
        f"{version('exactformer')}, torch {version('torch')}, numpy {version('numpy')}."
    )
    markdown = [f"# {title}", "", note, "", "| " + " | ".join(columns) + " |"]
    markdown += ["|" + "---|" * len(columns)]
    markdown += ["| " + " | ".join(line) + " |" for line in cells]
    (HERE / f"{name}.md").write_text("\n".join([*markdown, "", origin, ""]))
    (HERE / f"{name}.json").write_text(json.dumps({"note": note, "rows": rows}, indent=1) + "\n")


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
