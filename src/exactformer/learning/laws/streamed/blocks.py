"""Blocks of rows: where they lie, and one pass over all of them.

Row i belongs to block ⌊i / ROWS⌋ whatever files or partitions it came from, a pass computes something
small of each block, and results are used in the order of the blocks. So no sum depends on the number
of workers, on which was first, or on how the data were cut. Each pass reads the rows anew and takes
fingerprints of the blocks: sums of passes over different rows would make a law of neither.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError, needs
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.streamed.memory import kept_memory
from exactformer.learning.laws.streamed.recipes import Recipe, recipes
from exactformer.learning.threads import one_blas_thread
from exactformer.progress import progress

ROWS = 2**18
_RETRIES = 3
# Numbers whose bits are added up for a fingerprint: an odd count, so that signs do not cancel.
_RUN = 511

Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """Rows from number ``start`` on: ``X`` (n, d) and ``Y`` (n, outputs)."""

    start: int
    X: Array
    Y: Array

    def fingerprint(self) -> bytes:
        """Return a digest of the bits of all numbers: exact sums over short runs of them, in order."""
        digest = blake2b(digest_size=8)
        for part in (self.X, self.Y):
            bits = np.ravel(part, order="K").view(np.uint64)
            digest.update(np.add.reduceat(bits, np.arange(0, len(bits), _RUN)).tobytes())
        return digest.digest()


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

    @cached_property
    def _fingerprints(self) -> dict[int, bytes]:
        """Those of the first pass, by the place of the block."""
        return {}

    def map(self, what: str, function: Callable[..., Result], *arguments: Any) -> Iterator[Result]:
        """Yield function(block, *arguments) of every block, in order; ``what`` names the pass.

        Rows that are not those of an earlier pass raise an error.
        """
        begin = monotonic()
        results = self._results(_fingerprinted, (function, *arguments))
        with progress(what, self.rows, self.verbose, unit="rows", lines=True) as update:
            for place, (fingerprint, result) in enumerate(results):
                done = min(self.rows, (place + 1) * ROWS)
                if self._fingerprints.setdefault(place, fingerprint) != fingerprint:
                    raise InputError(
                        f"rows {place * ROWS + 1} to {done} are not those of an earlier pass, and a "
                        "law takes several: the data change while they are read, or are random "
                        "without a fixed seed. Store them first, or persist the collection"
                    )
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

    def _results(
        self, function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> Iterator[Result]:
        """Yield the results in the order of the blocks, worked on here, one per processor at a time."""
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


def _fingerprinted(
    block: Block, function: Callable[..., Result], *arguments: Any
) -> tuple[bytes, Result]:
    return block.fingerprint(), function(block, *arguments)


class ArrayBlocks(Blocks):
    """Blocks of arrays, in memory or mapped into it."""

    def __init__(self, X: Array, Y: Array, verbose: bool = False) -> None:
        self._X, self._Y = X, Y
        self.rows, self.columns, self.outputs = len(X), X.shape[1], Y.shape[1]
        self.verbose = verbose

    def _block(self, place: int) -> Block:
        here = slice(place * ROWS, (place + 1) * ROWS)
        X, Y = (np.array(part[here], dtype=np.float64) for part in (self._X, self._Y))
        return Block(place * ROWS, X, Y)


class StoredBlocks(Blocks):
    """Blocks in files of a folder that :class:`BlockWriter` wrote."""

    def __init__(self, folder: Path, rows: int, columns: int, outputs: int, verbose: bool) -> None:
        self._folder = folder
        self.rows, self.columns, self.outputs, self.verbose = rows, columns, outputs, verbose

    def _block(self, place: int) -> Block:
        numbers = np.load(self._folder / f"{place}.npy", allow_pickle=False)
        width = self.columns + self.outputs
        X, Y = np.split(numbers, [len(numbers) // width * self.columns])
        return Block(place * ROWS, X.reshape(-1, self.columns), Y.reshape(-1, self.outputs))


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
        # X before Y: each is read as one piece.
        parts = np.split(np.concatenate(self._pieces), [self._columns], axis=1)
        numbers = np.concatenate([part.ravel() for part in parts])
        np.save(self._folder / f"{self._stored}.npy", numbers, allow_pickle=False)
        self._pieces, self._held, self._stored = [], 0, self._stored + 1


class DaskBlocks(Blocks):
    """Blocks of Dask arrays or data frames, on the current Dask client or else on threads here.

    One task reads a block, computes what Dask has to compute of these rows alone, and does a pass's
    work: rows do not travel between workers. A block whose worker is lost is computed again; so is
    one that fails, a few times.
    """

    def __init__(self, X: Any, y: Any, verbose: bool = False) -> None:
        X, y = _known_array(X, "X"), _known_array(y, "y")
        if y.ndim == 1:
            y = y[:, None]
        if X.ndim != 2 or y.ndim != 2 or len(X) != len(y):
            raise InputError(f"X has the shape {X.shape}, y {y.shape}; give one target per row")
        if len(X) < 2:
            raise InputError(f"a law needs at least two rows; there are {len(X)}")
        if not X.shape[1]:
            raise InputError("X has no columns to learn from")
        self.rows, self.columns, self.outputs = len(X), X.shape[1], y.shape[1]
        self.verbose = verbose
        self._recipes = recipes([part.rechunk((ROWS, part.shape[1])) for part in (X, y)])

    def _results(
        self, function: Callable[..., Result], arguments: tuple[Any, ...]
    ) -> Iterator[Result]:
        if (client := _client()) is None:
            yield from super()._results(function, arguments)
            return
        from dask.delayed import delayed

        apply = delayed(_apply, pure=False)
        tasks = [
            apply(_Pass(function, arguments, recipe), *self._place(place), *recipe.shared)
            for place, recipe in enumerate(self._recipes)
        ]
        futures = client.compute(tasks, retries=_RETRIES)
        try:
            for place, future in enumerate(futures):
                yield future.result()
                futures[place] = None
        finally:
            client.cancel([future for future in futures if future is not None])

    def _block(self, place: int) -> Block:
        from dask import compute

        recipe = self._recipes[place]
        shared = compute(*recipe.shared, scheduler="sync")
        return _block_of(*self._place(place), recipe.rows(shared))

    def _place(self, place: int) -> tuple[int, int]:
        """Return the first row of a block, and how many it has."""
        start = place * ROWS
        return start, min(ROWS, self.rows - start)


def is_dask(collection: Any) -> bool:
    """Return whether something is a Dask array, data frame or series."""
    return hasattr(collection, "__dask_graph__")


class _Pass:
    """What to compute of a block; Dask does not look inside for things of its own."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], recipe: Recipe
    ) -> None:
        self.function, self.arguments = function, arguments
        self.recipe = replace(
            recipe, shared=()
        )  # results come as arguments, not as delayed objects


def _apply(work: _Pass, start: int, rows: int, *shared: Any) -> Any:
    with one_blas_thread(), kept_memory():
        return work.function(_block_of(start, rows, work.recipe.rows(shared)), *work.arguments)


def _block_of(start: int, rows: int, parts: list[Any]) -> Block:
    X, Y = (_numbers(part, start, name) for part, name in zip(parts, ("X", "y"), strict=True))
    if not len(X) == len(Y) == rows:
        raise InputError(
            f"from row {start + 1} on, X has {len(X)} rows and y {len(Y)}, but Dask's chunks promise "
            f"{rows}. A function of chunks must keep their lengths, or say that they are unknown"
        )
    return Block(start, X, Y)


def _numbers(part: Any, start: int, name: str) -> Array:
    """Return part of a Dask array as floats; masked numbers are not numbers."""
    if isinstance(part, np.ma.MaskedArray):
        part = np.ma.filled(part.astype(np.float64), np.nan)
    try:
        if np.iscomplexobj(part):
            raise TypeError("they are complex")
        part = np.asarray(part)
        if part.dtype.kind in "mM":
            raise TypeError("they are dates")
        if (largest := beyond_floats(part)) is not None:
            raise TypeError(f"beyond 2^53 floats do not hold every integer, such as {largest}")
        return np.asarray(part, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the rows of {name} from {start + 1} on are not all numbers: {error}. Leave rows with "
            "missing values out (dropna), and give numbers for the rest"
        ) from error


def beyond_floats(values: NDArray[Any]) -> int | None:
    """Return the largest of some integers if not all of them are floats."""
    kind = values.dtype.kind
    if not values.size or not (
        kind in "iu" or (kind == "O" and {*map(type, values.ravel())} == {int})
    ):
        return None
    ends = int(values.min()), int(values.max())
    if max(map(abs, ends)) <= 2**53:
        return None
    exact = values.astype(object).ravel()
    as_floats = all(int(one) == two for one, two in zip(map(float, exact), exact, strict=True))
    return None if as_floats else max(ends, key=abs)


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
