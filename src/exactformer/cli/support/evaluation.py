"""A model on many points: batches in order, one core each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from exactformer.polynomials.model import PolynomialModel

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Apply ``function`` on all cores; yield item and result in order, few items ahead.

    Torch's own threads wait for each other after every small product, which on a busy machine costs
    several times the work; whole batches side by side do not.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            pending: deque[tuple[T, Future[R]]] = deque()
            try:
                for item in items:
                    pending.append((item, pool.submit(function, item)))
                    if len(pending) > 2 * threads:
                        first, result = pending.popleft()
                        yield first, result.result()
                while pending:
                    first, result = pending.popleft()
                    yield first, result.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    finally:
        torch.set_num_threads(threads)


def values(model: PolynomialModel, points: NDArray[Any]) -> NDArray[Any]:
    """Return the model's values at points rounded to its format, as NumPy holds them."""
    with torch.inference_mode():
        return as_array(model(torch.from_numpy(points).to(model.dtype)))


def as_array(computed: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as NumPy holds it, which has no bfloat16."""
    array: NDArray[Any] = (
        computed.float() if computed.dtype == torch.bfloat16 else computed
    ).numpy()
    return array
