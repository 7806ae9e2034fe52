"""All weights of an ensemble as one matrix with a row for each model, and its gradient.

Norms, clipping, freezing and the optimiser then act on rows, a few launches for everything. While
packed, the module's parameters are views of the matrix.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from exactformer.learning.ensembles.models.base import StackedModels

# Parameters begin at multiples of 128 bytes of float32, as fast matrix products want them.
_ALIGNMENT = 32


class PackedWeights:
    """``values`` and ``gradient``, (M, P); unused columns between parameters are zero."""

    def __init__(self, ensemble: StackedModels) -> None:
        self.parameters = [p for p in ensemble.parameters() if p.requires_grad]
        starts, width = [], 0
        for parameter in self.parameters:
            starts.append(width)
            width += -(-prod(parameter.shape[1:]) // _ALIGNMENT) * _ALIGNMENT
        first = self.parameters[0].detach()
        self.values = first.new_zeros(ensemble.models, width)
        self.gradient = torch.zeros_like(self.values)
        self._places = []
        for parameter, start in zip(self.parameters, starts, strict=True):
            shape, size = parameter.shape[1:], prod(parameter.shape[1:])
            here, place = (
                matrix[:, start : start + size].view(ensemble.models, *shape)
                for matrix in (self.values, self.gradient)
            )
            here.copy_(parameter.detach())
            parameter.data = here
            self._places.append(place)

    def differentiate(self, losses: Tensor) -> None:
        """Write the gradient of each model's loss into its row.

        No model's loss depends on another's weights, so the sum has all gradients at once.
        """
        for place, gradient in zip(
            self._places, torch.autograd.grad(losses.sum(), self.parameters), strict=True
        ):
            place.copy_(gradient)

    def release(self) -> None:
        """Give the parameters memory of their own again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
