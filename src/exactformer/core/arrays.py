"""Arrays of float64: from what users give, and in one formula for NumPy and PyTorch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]


def reals(values: Any, name: str) -> Array:
    """Return ``values`` as float64; complex numbers are refused, for their real part is another thing.

    >>> reals([1, 2], "a kernel")
    array([1., 2.])
    """
    try:
        array = np.asarray(values)
        real = array.real.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers: {error}") from error
    if np.iscomplexobj(array):
        raise InputError(f"{name} must be real, not complex")
    return real


def namespace(array: Any) -> Any:
    """Return ``torch`` for a tensor, else ``numpy``; torch is not imported for asking."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def as_array(values: Any) -> Any:
    """Return a tensor as it is and anything else as a float64 array."""
    return values if namespace(values) is not np else np.asarray(values, dtype=np.float64)


def fresh(array: Any) -> Any:
    """Return a copy, which a user's function may write into."""
    return array.copy() if namespace(array) is np else array.clone()


def like(values: Any, array: Any) -> Any:
    """Return ``values`` as an array of the kind, precision and device of ``array``."""
    if namespace(array) is np:
        return np.asarray(values, dtype=np.float64)
    own = values.copy() if isinstance(values, np.ndarray) else values  # it may be read-only
    return sys.modules["torch"].as_tensor(own, dtype=array.dtype, device=array.device)


def softmax(scores: Any) -> Any:
    """Return the softmax over the last axis."""
    if namespace(scores) is not np:
        return scores.softmax(-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
