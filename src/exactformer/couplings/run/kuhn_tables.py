"""Piecewise-linear functions of several numbers by their values at the knots of a box, trainable.

In a cell of Kuhn's triangulation with corner c and place z ∈ [0, 1]^d, sort z_π(1) ≥ … ≥ z_π(d). The
simplex that holds z has the vertices c, c + e_π(1), c + e_π(1) + e_π(2), … with the weights

    1 − z_π(1),  z_π(1) − z_π(2),  …,  z_π(d).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from exactformer.errors import InputError


class KuhnTable(nn.Module):
    """n functions on a box of d ≥ 2 dimensions; beyond it, those of the nearest point in it.

    Args:
        values: ``((N + 1)^d, n)`` or ``(M, (N + 1)^d, n)``, the last coordinate running quickest.
        low: the box's lower corner, ``(d,)`` or ``(M, d)``.
        high: its upper corner.
    """

    low: Tensor
    scale: Tensor
    strides: Tensor

    def __init__(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        super().__init__()
        d, knots = low.shape[-1], values.shape[-2]
        self.pieces = round(knots ** (1 / d)) - 1
        if self.pieces < 1 or (self.pieces + 1) ** d != knots:
            raise InputError(f"{knots} knots do not make a grid in {d} dimensions")
        self.values = nn.Parameter(values.clone())
        self.register_buffer("low", low.to(values))
        self.register_buffer("scale", (self.pieces / (high - low)).to(values))
        self.register_buffer("strides", (self.pieces + 1) ** torch.arange(d - 1, -1, -1))

    def forward(self, x: Tensor, per_model: bool = False) -> Tensor:
        """Evaluate at x: ``(..., d)`` to ``(..., n)``; ``per_model``: x has the leading axis M."""
        low, scale = self.low, self.scale
        if low.dim() == 2:
            shape = (len(low),) + (1,) * (x.dim() - 2) + (-1,)
            low, scale = low.view(shape), scale.view(shape)
        place = ((x - low) * scale).clamp(0, self.pieces)
        corner = place.detach().floor().clamp(max=self.pieces - 1)
        inside, order = (place - corner).sort(dim=-1, descending=True, stable=True)
        steps = self.strides[order].cumsum(dim=-1)
        start = (corner.long() * self.strides).sum(dim=-1, keepdim=True)
        knots = torch.cat([start, start + steps], dim=-1)
        ends = torch.ones_like(inside[..., :1])
        weights = torch.cat([ends, inside], dim=-1) - torch.cat([inside, 0 * ends], dim=-1)
        return (weights[..., None] * self._read(knots, per_model)).sum(dim=-2)

    def _read(self, index: Tensor, per_model: bool) -> Tensor:
        n = self.values.shape[-1]
        values: Tensor = self.values
        if per_model:
            own = torch.arange(len(values), device=index.device) * values.shape[1]
            index = index + own.view(-1, *(1,) * (index.dim() - 1))
            values = values.reshape(-1, n)
        return values.index_select(0, index.flatten()).view(*index.shape, n)

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        """Evaluate; see :meth:`forward`."""
        return cast(Tensor, super().__call__(*args, **options))
