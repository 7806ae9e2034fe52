"""Arrays from .npz and .npy files, their sizes read from the headers before anything is allocated."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import FileFormatError, SizeError

ALLOWED = 2**32
"""Bytes of arrays that are read from a file of any size."""
RATIO = 20
"""Bytes of arrays that are read for each byte of a larger file: numbers do not compress better."""


def read_npz(path: Path, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name, all of them or those named that are there."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names or file.files if name in file.files}
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        KeyError,
        RuntimeError,  # encrypted, or compressed in a way that is not known
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise FileFormatError(f"{path} is not an .npz file of numbers: {error}") from None


def read_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and format of an .npy file; ValueError if damaged."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(
        f"it has version {version} of the format, which is for tables with named fields"
    )


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    total = 0
    for member in archive.infolist():
        with archive.open(member) as stream:
            shape, _, dtype = read_header(stream)  # type: ignore[arg-type]
        size = prod(shape) * dtype.itemsize
        if size > member.file_size:
            raise FileFormatError(
                f"{path}: the array {member.filename.removesuffix('.npy')!r} has shape {shape}, "
                f"{size:,} bytes, of which the file holds {member.file_size:,}; write it again"
            )
        total += size
    limit = max(ALLOWED, RATIO * path.stat().st_size)
    if total > limit:
        raise SizeError(
            f"{path}: its arrays have {total:,} bytes, the limit is {limit:,} for a file of "
            f"{path.stat().st_size:,}; write fewer entries, or write it without compression"
        )
