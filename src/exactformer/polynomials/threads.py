"""Points in pieces, shared among threads.

Pieces keep memory constant, however many points there are, and each is still in the cache when it
is evaluated after it was checked. They are cut the same way for any number of threads, and do not
know of each other: values depend on neither.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from exactformer.polynomials.run.closed_form_cpu import one_thread


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
