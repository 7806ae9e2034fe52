"""Printing: one JSON object for machines, rich text for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_json(data: Mapping[str, Any], *saved: Path | str | None) -> None:
    """Print one JSON object that ends with ``saved``, the list of what was written.

    JSON has no NaN and no infinities; they become null.
    """
    _print_object({**data, "saved": [str(path) for path in saved if path is not None]})


def print_error(kind: str, message: str, as_json: bool) -> None:
    """Print what is wrong: as JSON on stdout, or on stderr with its lines as they are."""
    from rich.text import Text

    if as_json:
        _print_object({"error": kind, "message": message})
    else:
        text = Text.assemble(("error: ", "bold red"), message)  # carets stay below their column
        console(stderr=True).print(text, soft_wrap=True)


def print_saved(*saved: Path | str | None) -> None:
    """Print a line for every file that was written."""
    for path in saved:
        if path is not None:
            console().print(f"Saved {path}", soft_wrap=True)


def console(stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that colours nothing by itself and does not read text as markup."""
    from rich.console import Console

    return Console(stderr=stderr, quiet=quiet, highlight=False, markup=False)


def empty_table(*heads: str, right: int | None = None, ruled: bool = True) -> Table:
    """Return a table in the one look of all commands; columns from ``right`` on are numbers."""
    from rich import box
    from rich.table import Table

    look = box.SIMPLE_HEAD if ruled else None
    table = Table(*heads, box=look, show_edge=False, pad_edge=False, header_style="cyan")
    table.columns[0].overflow = "fold"
    for column in table.columns[len(heads) if right is None else right :]:
        column.justify = "right"
    return table


def shortened(text: str, width: int = 300) -> str:
    """Return a text cut to ``width`` characters, followed by its full length."""
    return text if len(text) <= width else f"{text[:width]} … ({len(text):,} characters)"


def _print_object(data: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(_finite(data), indent=2, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
