"""Printing: one JSON object for machines, rich text for people."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object; what JSON has no number for (NaN, infinities) becomes null."""
    typer.echo(json.dumps(_finite(data), indent=2, allow_nan=False))


def print_error(message: str) -> None:
    """Say on stderr what is wrong, in lines as they are: carets must stay below their column."""
    from rich.text import Text

    text = Text.assemble(("error: ", "bold red"), message)
    console(stderr=True).print(text, soft_wrap=True)


def console(stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that colours nothing by itself and takes no text for markup."""
    from rich.console import Console

    return Console(stderr=stderr, quiet=quiet, highlight=False, markup=False)


def shortened(text: str, width: int = 300) -> str:
    """Return a text cut to ``width``, saying how long it was."""
    return text if len(text) <= width else f"{text[:width]} … ({len(text):,} characters)"


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
