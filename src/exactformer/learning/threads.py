"""One thread for small work: waking others costs milliseconds, a small product microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_FEW_TERMS = 256
_FEW_PRODUCTS = 2**25


def one_blas_thread(terms: int = 0) -> AbstractContextManager[object]:
    """Keep BLAS to one thread, if there are few terms."""
    if terms > _FEW_TERMS:
        return nullcontext()
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes longer than a small fit


@contextmanager
def one_torch_thread(products: int) -> Iterator[None]:
    """Keep PyTorch to one thread, if a step has few multiplications."""
    import torch

    before = torch.get_num_threads()
    if products < _FEW_PRODUCTS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
