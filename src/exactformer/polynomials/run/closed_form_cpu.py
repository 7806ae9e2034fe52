"""A fused form on the CPU, in blocks that stay in a core's cache.

Evaluated at once, every step over the degrees would read and write n·N numbers in main memory. A
block is 128 tokens times 256 points of float64 (fewer tokens, more points): t, the running value and
the sum over tokens fit the second-level cache, each step overwrites them, and nothing is allocated.
Terms are added group by group of tokens, entry by entry, and the rows of what is left by halving.

It all happens in the calling thread: torch's own wait for each other after every one of these short
steps. Blocks of points are independent, so that callers can share them out: points are cut into pieces,
which keep memory constant, however many points there are, and are still in the cache when they are
evaluated after they were checked. Pieces are the same for any number of threads, and independent of
each other: values depend on neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from exactformer.polynomials.run.closed_form import GROUP, SHORT, Basis

_BYTES = 2**18  # of one array of a block


@torch.no_grad()
def evaluate(
    x: Tensor,
    centre: Tensor | None,
    features: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    basis: Basis,
    dtype: torch.dtype,
) -> Tensor:
    """Return the values (m, N) at points (N, d), rounded to ``dtype``.

    ``features`` (n, d), ``coefficients`` (m, q, n) and ``bias`` (m) are in the format to compute in;
    points may be in a narrower one.
    """
    entries = _BYTES // features.itemsize
    group = len(features) if len(features) * len(x) <= entries else min(len(features), GROUP)
    size = max(1, entries // group)
    step = _horner if basis is Basis.POWER else _clenshaw
    weights = [
        (F, [list(output.unsqueeze(-1)) for output in c])
        for F, c in zip(
            torch.split(features, group), torch.split(coefficients, group, dim=2), strict=True
        )
    ]
    values = x.new_empty((len(bias), len(x)), dtype=dtype)
    workspace = features.new_empty((3 + len(bias), group * min(size, len(x))))
    width = 0
    with one_thread():
        for block, result in zip(
            torch.split(x, size), torch.split(values, size, dim=1), strict=True
        ):
            points = block.T.to(features.dtype)
            if centre is not None:
                points = points - centre.unsqueeze(-1)
            if len(block) != width:  # the first block, and a shorter one at the end
                width = len(block)
                rows = workspace[:, : group * width].view(-1, group, width)
                groups = [(F, columns, rows[:, : len(F)].unbind()) for F, columns in weights]
                sums = rows[3:].unbind()
            for g, (F, columns, (t, value, spare, *totals)) in enumerate(groups):
                torch.mm(F, points, out=t)
                for c, total in zip(columns, totals, strict=True):
                    step(t, c, value, spare, total, g == 0)
            for total, constant, row in zip(sums, bias, result, strict=True):
                torch.add(_sum_rows(total), constant, out=row)
    return values


@contextmanager
def one_thread() -> Iterator[int]:
    """Keep torch to the calling thread; yields how many it may have otherwise."""
    threads = torch.get_num_threads()
    if threads > 1:
        torch.set_num_threads(1)
    try:
        yield threads
    finally:
        if threads > 1:
            torch.set_num_threads(threads)


def _horner(
    t: Tensor, c: list[Tensor], value: Tensor, spare: Tensor, total: Tensor, first: bool
) -> None:
    """Add Σ_s c_s t^s, s = 1 … q, to ``total``, or begin it."""
    last = c[-1]
    for column in c[-2::-1]:
        last = torch.addcmul(column, last, t, out=value)
    if first:
        torch.mul(last, t, out=total)
    else:
        total.addcmul_(last, t)


def _clenshaw(
    t: Tensor, c: list[Tensor], value: Tensor, spare: Tensor, total: Tensor, first: bool
) -> None:
    """Add Σ_s c_s T_s(t), s = 1 … q, to ``total``, or begin it."""
    value.copy_(c[-1].expand_as(t))
    spare.zero_()
    for column in c[-2::-1]:
        torch.sub(column, spare, out=spare).addcmul_(t, value, value=2)
        value, spare = spare, value
    if first:
        torch.mul(t, value, out=total).sub_(spare)
    else:
        total.sub_(spare.addcmul_(t, value, value=-1))


def _sum_rows(rows: Tensor) -> Tensor:
    """Sum the first axis in place: halves are added until few rows are left."""
    while (size := len(rows)) > SHORT:
        half = size // 2
        rows[:half] += rows[size - half :]
        rows = rows[: size - half]
    return rows.sum(dim=0)


def in_pieces(work: Callable[[Tensor], Tensor], points: Tensor, size: int) -> list[Tensor]:
    """Return the results for pieces of at most ``size`` points, one after the other."""
    if len(points) <= size:  # of one point, cutting would take as long as checking it
        return [work(points)]
    return [work(piece) for piece in torch.split(points, size)]


def in_threads(work: Callable[[Tensor], Tensor], points: Tensor, size: int) -> list[Tensor]:
    """Return the same from as many threads as torch may use, without gradients.

    Torch's own threads meet after every operation; ours only at the end.
    """
    if len(points) <= size or torch.get_num_threads() < 2:
        return in_pieces(work, points, size)
    with (
        one_thread() as threads,
        ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        return list(pool.map(torch.no_grad()(work), torch.split(points, size)))
