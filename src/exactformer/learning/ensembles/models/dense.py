"""M feed-forward networks of one shape as batched matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.learning.ensembles.models.base import uniform

Activation = Literal["relu", "gelu", "tanh"]

# In place where the gradient needs only the result: hidden layers are most of the memory.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "gelu": functional.gelu,
}


class DenseEnsemble(nn.Module):
    """Linear maps with an activation between them: ``sizes`` = (in, hidden, …, out).

    ``weights[l]`` is (M, sizes[l + 1], sizes[l]) and ``biases[l]`` (M, sizes[l + 1]), started as
    ``nn.Linear`` starts them from each model's own generator.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        sources: Sequence[torch.Generator],
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.sizes, self.activation = tuple(sizes), _ACTIVATIONS[activation]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in pairwise(sizes):
            bound = before**-0.5
            self.weights.append(uniform(sources, [(after, before)] * len(sources), bound))
            self.biases.append(uniform(sources, [(after,)] * len(sources), bound))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows, shared (R, in) or (M, R, in), to (M, R, out)."""
        h = x.expand(len(self.weights[0]), *x.shape[-2:])
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.baddbmm(bias.unsqueeze(1), h, weight.mT)
            if layer < last:
                h = self.activation(h)
        return h

    @property
    def multiplications(self) -> int:
        """How many multiplications one model needs for one row."""
        return sum(before * after for before, after in pairwise(self.sizes))

    @property
    def activations(self) -> int:
        """How many numbers one model keeps of one row for its gradient."""
        kept = 2 if self.activation is functional.gelu else 1
        return self.sizes[0] + kept * sum(self.sizes[1:-1]) + self.sizes[-1]
