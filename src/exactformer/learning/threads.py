"""One thread for small work: waking others costs milliseconds, a small product microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_FEW_TERMS = 256
_FEW_PRODUCTS = 2**25


def one_blas_thread(terms: int = 0) -> AbstractContextManager[object]:
    """Keep BLAS to one thread, if there are few terms."""
    return nullcontext() if terms > _FEW_TERMS else _blas.limited()


class _Blas:
    """The setting of a process: the first of several that overlap makes it, the last restores it."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limit.restore_original_limits()


_blas = _Blas()


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
