"""Values to CSV or NPY, a batch at a time: whole files or none, digits that read back to the float."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from exactformer.core.whole_files import whole_file

Write = Callable[[NDArray[Any]], None]


@contextmanager
def values_to(out: Path | None, header: Sequence[str], shape: tuple[int, ...]) -> Iterator[Write]:
    """Give a function that takes values batch by batch; ``None`` is standard output.

    ``header`` names the columns, if they are to be named; ``shape`` is that of one value.
    """
    if out is None:
        yield _csv_writer(sys.stdout, header)
        return
    is_array = out.suffix.lower() == ".npy"
    with whole_file(out, "wb" if is_array else "w") as file:
        if not is_array:
            yield _csv_writer(file, header)
            return
        pieces: list[NDArray[Any]] = []
        yield pieces.append
        np.save(file, np.concatenate(pieces) if pieces else np.empty((0, *shape)))


def _csv_writer(stream: TextIO, header: Sequence[str]) -> Write:
    if header:
        stream.write(",".join(header) + "\n")

    def write(values: NDArray[Any]) -> None:
        # str of a NumPy float is the shortest text that reads back to it, in its own format.
        rows = values.reshape(len(values), -1)
        stream.write("".join(",".join(map(str, row)) + "\n" for row in rows))

    return write
