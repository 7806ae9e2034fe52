"""Programs and sequences of tokens in files, and values as tables show them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exactformer.errors import FileFormatError

LONGEST = 2**20
"""Characters of a line."""


def lines_of(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file or of standard input that are not blank."""
    try:
        with sys.stdin if path is None else path.open(encoding="utf-8") as stream:
            while line := stream.readline(LONGEST + 1):
                if len(line) > LONGEST:
                    raise FileFormatError(f"a line has more than {LONGEST:,} characters")
                if line.strip():
                    yield line.rstrip("\n")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path or 'standard input'} is not text in UTF-8") from None


def program_text(path: Path) -> str:
    """Return the text of a program's file."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST)
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from None


def shown(value: Any) -> str:
    """Return a value as text."""
    return "–" if value is None else str(value)
