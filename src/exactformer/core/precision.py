"""Guards that keep the arithmetic what the certificate assumes: no autocast, no reduced products."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch

from exactformer.core.formats import float_format
from exactformer.errors import ExecutionError

# What torch.backends.cuda.matmul.fp32_precision reads; releases before 2.9 have no such settings.
_backend_precision = getattr(torch._C, "_get_fp32_precision_getter", None)
_FULL = ("none", "ieee")  # "none" leaves it to the wider setting


def as_dtype(dtype: object) -> torch.dtype:
    """Return the torch dtype of a float format, which torch, NumPy or a name may say.

    >>> as_dtype("float32")
    torch.float32
    """
    name = float_format(dtype.__name__ if isinstance(dtype, type) else dtype).name
    found: torch.dtype = getattr(torch, name)
    return found


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Suspend autocast, which would round products to half precision behind any bound."""
    kind = device.type
    known = kind in ("cpu", "cuda") or torch.amp.is_autocast_available(kind)
    if known and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


@contextmanager
def plain_torch() -> Iterator[None]:
    """Make tensors on the processor, and put them together as they are, whatever torch is set to.

    A default device would take weights away before they are read, and autocast refuses a second half
    format.
    """
    with torch.device("cpu"), torch.autocast("cpu", enabled=False):
        yield


def check_products(arithmetic: torch.dtype) -> None:
    """Raise if matrix products in ``arithmetic`` are rounded more coarsely than the format.

    Only float32 can be: TF32 and bfloat16 stand in for it. Every number of a half format is a number of
    TF32, and float64 is never reduced.
    """
    if arithmetic == torch.float32 and not is_full_precision():
        raise ExecutionError(
            "float32 matrix products are set to reduced precision, which the certificate does "
            "not cover; call torch.set_float32_matmul_precision('highest'), or use torch.float64"
        )


def is_full_precision() -> bool:
    """Whether float32 products are those of float32, on every backend."""
    try:
        if torch.get_float32_matmul_precision() != "highest":
            return False
    except RuntimeError:  # torch refuses to answer where its backends disagree
        return False
    if _backend_precision is not None:
        for backend in ("cuda", "mkldnn"):
            if _backend_precision(backend, "matmul") not in _FULL:
                return False
    return not _is_reduced_from_outside()


# As a compiler should take it: a constant. Torch compiles anew when this setting changes. (This is
# torch.compiler.assume_constant_result, without loading the compiler.)
is_full_precision._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _is_reduced_from_outside() -> bool:
    """Whether the environment lets oneDNN shorten float32; torch does not report this."""
    names = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
    return any(os.environ.get(name, "strict").lower() != "strict" for name in names)
