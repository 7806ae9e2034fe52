"""Exact matrices as tensors: each entry rounded once, to nearest."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch
from torch import Tensor

from exactformer.core.formats import float_format
from exactformer.core.matrix import Matrix
from exactformer.core.words import at_least
from exactformer.errors import RoundingError

Place = Callable[[int, int], str]


def dense(
    matrix: Matrix, dtype: torch.dtype, place: Place, known: dict[Fraction, float] | None = None
) -> Tensor:
    """Return ``matrix`` as a dense tensor; what overflows raises with its place in words.

    ``known`` remembers rounded values across the matrices of one model, which repeat a few.
    """
    target = float_format(dtype)
    rounded = {} if known is None else known

    def entry(i: int, j: int, value: Fraction) -> float:
        if value not in rounded:
            nearest = target.round(value)
            if nearest is None:
                raise RoundingError(
                    f"{place(i, j)}: the weight is beyond {target.name}, whose largest number is "
                    f"{at_least(float(target.largest))}"
                )
            rounded[value] = float(nearest)
        return rounded[value]

    tensor = torch.zeros(matrix.shape, dtype=torch.float64)
    if matrix.nonzeros:
        places = torch.tensor(list(matrix.entries)).T
        values = [entry(i, j, value) for i, j, value in matrix]
        tensor[places[0], places[1]] = torch.tensor(values, dtype=torch.float64)
    return tensor.to(dtype)
