"""Blocks of rows: where they lie, and one pass over all of them.

Row i belongs to block ⌊i / ROWS⌋ whatever files or partitions it came from, a pass computes something
small of each block, and results are used in the order of the blocks. So no sum depends on the number
of workers, on which was first, or on how the data were cut.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from exactformer.errors import InputError, needs
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.threads import one_blas_thread
from exactformer.progress import progress

ROWS = 2**18
_RETRIES = 3

Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """Rows from number ``start`` on: ``X`` (n, d) and ``Y`` (n, outputs)."""

    start: int
    X: Array
    Y: Array


class Blocks(ABC):
    """All rows of a data set: how many there are, of how many columns and outputs."""

    columns: int
    outputs: int
    rows: int
    verbose: bool = False

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.rows // ROWS)

    def map(self, what: str, function: Callable[..., Result], *arguments: Any) -> Iterator[Result]:
        """Yield function(block, *arguments) of every block, in order; ``what`` names the pass."""
        begin = monotonic()
        with progress(what, self.rows, self.verbose, unit="rows", lines=True) as update:
            for place, result in enumerate(self._results(function, arguments), start=1):
                done = min(self.rows, place * ROWS)
                rate = done / max(monotonic() - begin, 1e-9)
                update(done, f"{rate:,.0f} rows/s")
                yield result

    def sum(
        self, what: str, function: Callable[..., tuple[Any, ...]], *arguments: Any
    ) -> tuple[Any, ...]:
        """Return the sums of what ``function`` returns for each block."""
        total: tuple[Any, ...] = ()
        for result in self.map(what, function, *arguments):
            total = tuple(a + b for a, b in zip(total, result, strict=True)) if total else result
        return total

    @abstractmethod
    def _results(
        self, function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> Iterator[Result]:
        """Yield the results in the order of the blocks."""


class LocalBlocks(Blocks):
    """Blocks that this machine reads and works on, one per processor at a time."""

    def _results(
        self, function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> Iterator[Result]:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        # Blocks are begun a few ahead of the one whose result is waited for: memory stays constant.
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            waiting: list[Any] = []
            for place in range(self.count):
                waiting.append(pool.submit(lambda k: function(self._block(k), *arguments), place))
                if len(waiting) > 2 * workers:
                    yield waiting.pop(0).result()
            for future in waiting:
                yield future.result()

    @abstractmethod
    def _block(self, place: int) -> Block:
        """Read one block."""


class ArrayBlocks(LocalBlocks):
    """Blocks of arrays, in memory or mapped into it."""

    def __init__(self, X: Array, Y: Array, verbose: bool = False) -> None:
        self._X, self._Y = X, Y
        self.rows, self.columns, self.outputs = len(X), X.shape[1], Y.shape[1]
        self.verbose = verbose

    def _block(self, place: int) -> Block:
        here = slice(place * ROWS, (place + 1) * ROWS)
        return Block(place * ROWS, np.array(self._X[here]), np.array(self._Y[here]))


class StoredBlocks(LocalBlocks):
    """Blocks in files of a folder that :class:`BlockWriter` wrote."""

    def __init__(self, folder: Path, rows: int, columns: int, outputs: int, verbose: bool) -> None:
        self._folder = folder
        self.rows, self.columns, self.outputs, self.verbose = rows, columns, outputs, verbose

    def _block(self, place: int) -> Block:
        numbers = np.load(self._folder / f"{place}.npy", allow_pickle=False)
        X, Y = numbers[:, : self.columns], numbers[:, self.columns :]
        return Block(place * ROWS, np.ascontiguousarray(X), np.ascontiguousarray(Y))


class BlockWriter:
    """Writes rows, in pieces of any length, as blocks into a folder."""

    def __init__(self, folder: Path, columns: int, outputs: int) -> None:
        self._folder, self._columns, self._outputs = folder, columns, outputs
        self._pieces: list[Array] = []
        self._held = self._stored = self.rows = 0

    def write(self, numbers: Array) -> None:
        """Take rows (n, columns + outputs)."""
        self.rows += len(numbers)
        while len(numbers):
            taken = numbers[: ROWS - self._held]
            self._pieces.append(taken)
            self._held += len(taken)
            numbers = numbers[len(taken) :]
            if self._held == ROWS:
                self._store()

    def finished(self, verbose: bool) -> StoredBlocks:
        """Return all rows as blocks."""
        if self._held:
            self._store()
        return StoredBlocks(self._folder, self.rows, self._columns, self._outputs, verbose)

    def _store(self) -> None:
        path = self._folder / f"{self._stored}.npy"
        np.save(path, np.concatenate(self._pieces), allow_pickle=False)
        self._pieces, self._held, self._stored = [], 0, self._stored + 1


class DaskBlocks(Blocks):
    """Blocks of Dask arrays or data frames, on the current Dask client or else on threads here.

    A block whose worker is lost is computed again; so is one that fails, a few times.
    """

    def __init__(self, X: Any, y: Any, verbose: bool = False) -> None:
        X, y = _known_array(X, "X"), _known_array(y, "y")
        if y.ndim == 1:
            y = y[:, None]
        if X.ndim != 2 or y.ndim != 2 or len(X) != len(y):
            raise InputError(f"X has the shape {X.shape}, y {y.shape}; give one target per row")
        self.rows, self.columns, self.outputs = len(X), X.shape[1], y.shape[1]
        self.verbose = verbose
        self._X = X.rechunk((ROWS, X.shape[1])).to_delayed().ravel()
        self._Y = y.rechunk((ROWS, y.shape[1])).to_delayed().ravel()

    def _results(
        self, function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> Iterator[Result]:
        from dask.delayed import delayed

        work = delayed(_apply, pure=False)
        tasks = [
            work(_Pass(function, arguments), place * ROWS, X, Y)
            for place, (X, Y) in enumerate(zip(self._X, self._Y, strict=True))
        ]
        if (client := _client()) is None:
            yield from (task.compute(scheduler="threads") for task in tasks)
            return
        futures = client.compute(tasks, retries=_RETRIES)
        try:
            for place, future in enumerate(futures):
                yield future.result()
                futures[place] = None
        finally:
            client.cancel([future for future in futures if future is not None])


def is_dask(collection: Any) -> bool:
    """Return whether something is a Dask array, data frame or series."""
    return hasattr(collection, "__dask_graph__")


class _Pass:
    """What to compute of each block; Dask does not look inside for things of its own."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments


def _apply(work: _Pass, start: int, X: Any, Y: Any) -> Any:
    block = Block(start, *(np.ascontiguousarray(part, dtype=np.float64) for part in (X, Y)))
    with one_blas_thread():
        return work.function(block, *work.arguments)


def _client() -> Any:
    """Return the current client of a Dask cluster, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _known_array(collection: Any, name: str) -> Any:
    """Return a Dask array whose chunks have known sizes; anything else is refused."""
    with needs("cluster", "a Dask collection"):
        import dask.array
    if not is_dask(collection):
        raise InputError(
            f"{name} is not a Dask collection, but the other one is; give both as Dask's"
        )
    if hasattr(collection, "to_dask_array"):
        collection = collection.to_dask_array(lengths=True)
    if not isinstance(collection, dask.array.Array):
        raise InputError(
            f"{name} must be a Dask array or data frame, not {type(collection).__name__}"
        )
    if any(np.isnan(size) for size in collection.shape):
        collection = collection.compute_chunk_sizes()
    return collection
