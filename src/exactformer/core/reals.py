"""What users give, as real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError


def reals(values: Any, name: str) -> NDArray[np.float64]:
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
