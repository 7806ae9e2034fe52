"""Whole files: each takes its place when all of it is written, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from exactformer.errors import FileFormatError


@contextmanager
def whole_file(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Open a file that takes its place when all of it is written, or not at all.

    Several processes may write the same one: the last to end has its place. An error that has no
    file of its own, such as a full disk, is about this one.
    """
    target = Path(path)
    partial = target.with_name(f"{target.stem[:40]}.{token_hex(8)}.partial")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with partial.open(mode, **text) as file:
            yield file
        partial.replace(target)
    except OSError as error:
        if error.filename is None or str(error.filename) == str(partial):
            error.filename = str(target)
            del error.filename2  # set to None, it would be printed as a second file
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(contents: bytes, path: str | Path) -> None:
    """Write a file; an existing one is replaced only once all is written."""
    target = Path(path)
    if target.exists() and not target.is_file():
        raise FileFormatError(f"cannot write {target}: it is not a plain file")
    try:
        with whole_file(target, "wb") as file:
            file.write(contents)
    except OSError as error:
        raise FileFormatError(f"cannot write {target}: {error.strerror or error}") from None
