"""Values to CSV or NPY: digits that read back to the same float, files whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Write = Callable[[NDArray[Any]], None]


@contextmanager
def values_to(out: Path | None, header: Sequence[str], shape: tuple[int, ...]) -> Iterator[Write]:
    """Give a function that takes values batch by batch; ``None`` is standard output.

    ``header`` names the columns, if they are to be named; ``shape`` is that of one value.
    """
    if out is None:
        yield _csv_writer(sys.stdout, header)
        return
    if out.suffix.lower() not in (".csv", ".npy"):
        raise InputError(f"{out}: values are written as .csv or .npy")
    if out.exists() and not out.is_file():
        raise InputError(f"{out} is not a file; choose another place for the values")
    partial = out.with_name(f"{out.name}.partial")
    try:
        if out.suffix.lower() == ".npy":
            with partial.open("wb") as binary:
                pieces: list[NDArray[Any]] = []
                yield pieces.append
                np.save(binary, np.concatenate(pieces) if pieces else np.empty((0, *shape)))
        else:
            with partial.open("w", encoding="utf-8", newline="") as text:
                yield _csv_writer(text, header)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)


def _csv_writer(stream: TextIO, header: Sequence[str]) -> Write:
    if header:
        stream.write(",".join(header) + "\n")

    def write(values: NDArray[Any]) -> None:
        # str of a NumPy float is the shortest text that reads back to it, in its own format.
        rows = values.reshape(len(values), -1)
        stream.write("".join(",".join(map(str, row)) + "\n" for row in rows))

    return write
