"""The altered order of Jiang & Li, appendix C: the first elements come last.

All sequences are padded to one length τ, and one permutation of the τ places, the same for every
input, is applied before positions are added:

    before    x_1 … x_10 │ x_11 … x_n  pad … pad
    after     x_11 … x_n  pad … pad │ x_1 … x_10

Padding is moved like everything else, and what may be looked at moves with it. A sentence of fewer
than ten tokens goes to the end as a whole, its first padding behind it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def first_to_end(tokens: int, moved: int) -> Tensor:
    """Return the order in which the old places are read: ``x[:, order]`` is the altered input."""
    return torch.arange(tokens).roll(-moved)
