"""Training that begins at a construction, for many models at once.

Theorem 4.1 cuts ρ after m_h terms. That is the best kernel of rank m_h for ρ itself, in the mean
square, but not for what comes out of the softmax: adding a function of u alone to ρ(u, v) changes no
output at all, and an error of ρ counts only where f varies and attention lies. A constructed model is
therefore a start. Its tables are moved within the class of equation (5), at the same head size and
the same knots,

    values = constructed + directions · coefficients,       coefficients = 0 at the start,

where ``directions`` are smooth functions at the knots. A few dozen of them for a table of thousands
keep what is learnt from the samples apart from their noise, and the conditioning is that of an
orthogonal basis. What the sequences held out do not find better stays as constructed.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.tables import KnotTable
from exactformer.errors import InputError
from exactformer.learning.ensembles import Ensemble, EnsembleProtocol, evaluate, train


def cosines(knots: int, count: int) -> Tensor:
    """Return 1, √2 cos πx, √2 cos 2πx, … at equidistant knots of the unit interval: (knots, count).

    They are complete on an interval without asking for equal values at its ends.
    """
    x = torch.linspace(0, 1, knots, dtype=torch.float64)
    waves = sqrt(2) * torch.cos(pi * x[:, None] * torch.arange(count, dtype=torch.float64))
    waves[:, 0] = 1
    return waves


class MovableTable(KnotTable):
    """Tables (M, knots, n) that move along directions (knots, C) by coefficients (M, C, n)."""

    def __init__(self, table: KnotTable, directions: Tensor) -> None:
        if table.models is None or len(directions) != table.pieces + 1:
            raise InputError(
                f"a table of shape {tuple(table.values.shape)} cannot move along directions of shape "
                f"{tuple(directions.shape)}: it needs an axis of models and as many knots."
            )
        low, high = table.low, table.low + table.pieces / table.scale
        super().__init__(table.values.detach(), low, high)
        self.values.requires_grad_(False)
        self.directions = KnotTable(directions.to(self.values), low, high).requires_grad_(False)
        shape = (table.models, directions.shape[1], self.values.shape[2])
        self.coefficients = nn.Parameter(self.values.new_zeros(shape))

    def forward(self, x: Tensor, segment: Tensor | None = None, per_model: bool = False) -> Tensor:
        """Evaluate at x, as :class:`KnotTable` does: interpolation is linear in the values."""
        waves = self.directions(x, segment, per_model)
        moved = "m...c,mcn->m...n" if per_model else "...c,mcn->m...n"
        change = torch.einsum(moved, waves, self.coefficients)
        return super().forward(x, segment, per_model) + change

    def moved(self, better: Tensor) -> KnotTable:
        """Return plain tables: moved for the models where ``better`` (M,) is true."""
        coefficients = self.coefficients.detach() * better[:, None, None]
        low, high = self.low, self.low + self.pieces / self.scale
        values = self.values.detach() + self.directions.values @ coefficients
        return KnotTable(values, low, high)


class CouplingEnsemble(Ensemble):
    """M constructed couplings to be trained on; F̂ stays as it is."""

    input_dim = output_dim = 1

    def __init__(self, start: FusedCoupling, directions: Tensor) -> None:
        super().__init__()
        self.table = MovableTable(start.features, directions)
        outer = deepcopy(start.outer)
        if outer is not None:
            outer.requires_grad_(False)
        self.coupling = FusedCoupling(self.table, outer, start.head_dim)
        self.models = len(self.table.coefficients)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return Ĥ (M, B, τ) for x (B, τ) or (M, B, τ)."""
        if mask is not None:
            raise InputError("constructed couplings read whole sequences; leave out the mask.")
        return self.coupling(x, per_model=x.dim() == 3)

    def activations(self, tau: int) -> int:
        """Return about how many numbers one model keeps of one sequence for its gradient."""
        directions, functions = self.table.coefficients.shape[1:]
        return tau * (directions + 6 * functions + 3 * tau)

    def multiplications(self, tau: int) -> int:
        """Return how many multiplications one model needs for one sequence, forwards."""
        directions, functions = self.table.coefficients.shape[1:]
        return tau * (directions * functions + tau * (functions + 1))


@dataclass(frozen=True)
class WarmStart:
    """Models trained from a construction, with both errors (M,) on the sequences held out."""

    model: FusedCoupling = field(repr=False)
    before: Tensor
    after: Tensor


_HELD_OUT = 1 / 8
"""The share of the sequences, the last ones, that decide what is kept."""


def warm_start(
    start: FusedCoupling,
    x: Any,
    y: Any,
    *,
    directions: Tensor,
    protocol: EnsembleProtocol,
    choice: Sequence[int] | None = None,
) -> WarmStart:
    """Train the M models of ``start`` on the mean squared error of their outputs.

    Args:
        start: constructed models with an axis M; they are left as they are.
        x: sequences (N, τ).
        y: their answers: (N, τ), or a bank (K, N, τ) of which ``choice`` gives every model its own.
        directions: functions at the knots, (knots, C).
    """
    ensemble = CouplingEnsemble(start, directions)
    trained = round(len(x) * (1 - _HELD_OUT))
    if not 0 < trained < len(x):
        raise InputError(f"{len(x)} sequences are too few to hold out {_HELD_OUT:.1%} of them.")
    held = x[trained:], y[..., trained:, :]
    before = evaluate(ensemble, *held, choice=choice)
    train(ensemble, x[:trained], y[..., :trained, :], protocol, choice=choice, validation=held)
    after = evaluate(ensemble, *held, choice=choice)
    better = after < before
    model = FusedCoupling(ensemble.table.moved(better), deepcopy(start.outer), start.head_dim)
    return WarmStart(model, before, torch.where(better, after, before))
