"""Sequences of tokens as text: with commas, or a character per token."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from exactformer.errors import FileFormatError, InputError

LONGEST = 2**20
"""Characters of a line."""


def vocabulary_of(text: str) -> list[Any]:
    """Return the tokens of a vocabulary: ``abc``, ``red,green`` or ``0,1,2``, whose tokens are numbers.

    >>> vocabulary_of("abc"), vocabulary_of("0,1,-2")
    (['a', 'b', 'c'], [0, 1, -2])
    """
    if "," not in text:
        return list(text)
    cells = [cell.strip() for cell in text.split(",")]
    if not all(cells):
        raise InputError(f"--vocabulary {text!r}: a token is missing between two commas")
    return [int(cell) if re.fullmatch(r"-?[0-9]{1,9}", cell) else cell for cell in cells]


def tokens_of(text: str, vocabulary: Sequence[Any]) -> list[Any]:
    """Return the tokens of a line: separated by commas or spaces, or one per character."""
    by_text = {str(token): token for token in vocabulary}
    cells = [cell for cell in re.split(r"[,\s]+", text.strip()) if cell]
    if any(cell not in by_text for cell in cells):
        cells = list(text.strip()) if "," not in text else cells
    return [by_text.get(cell, cell) for cell in cells]


def lines_of(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file or of standard input that are not blank."""
    try:
        stream = sys.stdin if path is None else path.open(encoding="utf-8")
        with stream as lines:
            for line in lines:
                if len(line) > LONGEST:
                    raise FileFormatError(f"a line has more than {LONGEST:,} characters")
                if line.strip():
                    yield line.rstrip("\n")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path or 'standard input'} is not text in UTF-8") from None


def shown(value: Any) -> str:
    """Return a value as text."""
    return "–" if value is None else str(value)
