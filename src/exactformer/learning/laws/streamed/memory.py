"""Memory of a worker: kept for the time of a task.

Dask starts its workers with MALLOC_TRIM_THRESHOLD_, so that glibc returns free memory to the system at
once. Then every array of a pass is given back and fetched anew, page by page, which takes longer than
the arithmetic. Here memory is kept until a task ends, and returned then.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_TRIM, _MMAP = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"
# Numbers of parameters in malloc.h, a default, and what is kept: the most that is allowed.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DEFAULT = 2**17
_KEPT, _LARGEST = 2**28, 2**25
_INT_MAX = 2**31 - 1


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep free memory until the end, where glibc was told to return it."""
    trim, library = _told(_TRIM), _glibc()
    if library is None or trim is None:
        yield
        return
    mmap = _told(_MMAP)
    library.mallopt(_TRIM_THRESHOLD, _KEPT)
    library.mallopt(_MMAP_THRESHOLD, _LARGEST)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _DEFAULT if mmap is None else mmap)
        library.mallopt(_TRIM_THRESHOLD, trim)
        library.malloc_trim(0)


def _told(setting: str) -> int | None:
    """Return the number of bytes that the environment gives for a setting, if it does."""
    told = os.environ.get(setting, "")
    return min(int(told), _INT_MAX) if told.isdecimal() else None


@cache
def _glibc() -> Any:
    """Return the C library, if it is one with these calls."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    known = all(hasattr(library, name) for name in ("mallopt", "malloc_trim"))
    return library if known else None
