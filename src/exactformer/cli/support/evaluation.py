"""A model on many points: batches in order, one core each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from exactformer.polynomials.model import PolynomialModel

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Apply ``function`` on all cores; yield item and result in order, two items per core ahead.

    Torch's own threads wait for each other after every small product, which on a busy machine costs
    several times the work; whole batches side by side do not. Items are taken in this thread, while
    the ones before are computed: joblib would take them in another, where Ctrl-C reaches no read.
    """
    from joblib import Parallel, delayed

    threads, source = torch.get_num_threads(), iter(items)
    torch.set_num_threads(1)
    try:
        with Parallel(threads, prefer="threads", return_as="generator", pre_dispatch="all") as pool:
            piece = list(islice(source, threads))
            while piece:
                results = pool(delayed(function)(item) for item in piece)
                try:
                    ahead = list(islice(source, threads))
                    yield from zip(piece, results, strict=True)
                finally:
                    deque(results, maxlen=0)  # joblib warns of results that nobody takes
                piece = ahead
    finally:
        torch.set_num_threads(threads)


def values(model: PolynomialModel, points: NDArray[Any]) -> NDArray[Any]:
    """Return the model's values at points rounded to its format, as NumPy holds them."""
    with torch.inference_mode():
        return as_array(model(torch.from_numpy(points).to(model.dtype)))


def as_array(computed: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as NumPy holds it, which has no bfloat16."""
    is_brain = computed.dtype == torch.bfloat16
    array: NDArray[Any] = (computed.float() if is_brain else computed).numpy()
    return array
