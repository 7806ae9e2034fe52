"""Sums by halving: neighbours are added in pairs, and their sums in pairs, until one is left.

A term of m meets at most ⌈log₂ m⌉ additions. They are written out as elementwise sums, which no device
and no compiler reorders, so that a bound may count them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def halving_sum(terms: Tensor, dim: int = -1) -> Tensor:
    """Sum one axis, the first (0) or the last (−1), in this fixed order."""
    while (size := terms.shape[dim]) > 1:
        even = size - size % 2
        if dim == 0:
            pairs = terms[0:even:2] + terms[1:even:2]
        else:
            pairs = terms[..., 0:even:2] + terms[..., 1:even:2]
        terms = pairs if even == size else torch.cat([pairs, terms.narrow(dim, even, 1)], dim=dim)
    return terms.squeeze(dim)


def additions(terms: int) -> int:
    """Return how many additions a term meets at most: ⌈log₂ m⌉."""
    return max(terms - 1, 0).bit_length()
