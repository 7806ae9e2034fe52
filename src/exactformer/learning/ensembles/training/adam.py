"""Adam for many models in one pass: every row of a matrix is a model.

    m ← β₁ m + (1 − β₁) g,     v ← β₂ v + (1 − β₂) g²,
    θ ← θ − η m / (1 − β₁^k) / (√(v / (1 − β₂^k)) + ε)     at step k

Before that, a gradient longer than ``clip`` is shortened to it, model by model; with ``weight_decay``
θ first shrinks by η·weight_decay (AdamW). A model whose loss or gradient is not finite stops as it was
before that step, and so does one that early stopping ends: its weights no longer change by a bit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from exactformer.learning.ensembles.training.protocol import EnsembleProtocol


class RowAdam:
    """The optimiser's state for weights (M, P). Every number that changes lives on the device."""

    def __init__(self, weights: Tensor, protocol: EnsembleProtocol) -> None:
        models, device = len(weights), weights.device
        self.protocol = protocol
        self.rates = protocol.rate_table(models).to(device)  # (steps, M), float64
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.clock = torch.zeros(1, dtype=torch.long, device=device)
        self.alive = torch.ones(models, dtype=torch.bool, device=device)
        self.finite = torch.ones(models, dtype=torch.bool, device=device)
        self.steps = torch.zeros(models, dtype=torch.long, device=device)

    @torch.no_grad()
    def step(self, weights: Tensor, gradient: Tensor, losses: Tensor) -> None:
        """Take one step; ``losses`` (M,) are those before it."""
        protocol = self.protocol
        norm = gradient.square().sum(dim=1).sqrt()
        self.finite.logical_and_(losses.isfinite() & norm.isfinite() | ~self.alive)
        self.alive.logical_and_(self.finite)
        if protocol.clip is not None:
            scale = (protocol.clip / (norm + 1e-6)).clamp(max=1.0)
            gradient = gradient * scale.unsqueeze(1)
        rate = self.rates.index_select(0, self.clock.clamp(max=len(self.rates) - 1)).T  # (M, 1)
        self.clock.add_(1)
        first, second = protocol.betas
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        # 1 − β^k in float64: in float32, 1 − β₂ alone would lose four digits.
        time = self.clock.double()
        step_size = (rate / -torch.expm1(time * math.log(first))).to(weights)
        spread = (-torch.expm1(time * math.log(second))).sqrt().to(weights)
        change = self.mean / (self.square.sqrt().div_(spread).add_(protocol.epsilon))
        change.mul_(step_size)
        if protocol.weight_decay:
            change.add_(weights * (rate * protocol.weight_decay).to(weights))
        weights.sub_(torch.where(self.alive.unsqueeze(1), change, 0))
        self.steps.add_(self.alive)
