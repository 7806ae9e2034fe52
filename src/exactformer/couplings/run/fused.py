"""Equation (5) with its feed-forward networks read from tables: the same function, O(1) a token.

    ĥ(s) = f̂(x(s)) = (φ̂_1 … φ̂_m, ψ̂_1 … ψ̂_m, value_1 … value_v)(x(s))
    Ĥ_t = F̂( Σ_s softmax_s(⟨φ̂(x(t)), ψ̂(x(s))⟩) · value(x(s)) )

W_Q, W_K, W_V only select rows of ĥ; here they are slices. Knot values are parameters and a leading
axis M holds M models, so that constructed models can be trained further, all at once. Heads smaller
than the largest are filled up with zeros in φ̂ and ψ̂: the gradient of each is a multiple of the
other, hence zero, and they stay as small as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from exactformer.core.precision import full_precision
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.run.kuhn_tables import KuhnTable
from exactformer.couplings.run.tables import KnotTable
from exactformer.errors import InputError

Record = Callable[[str, Tensor], None]
STEPS = ("stream", "scores", "attention", "means")
"""What happens on the way, by name: ĥ; ⟨φ̂, ψ̂⟩; softmax of it; averages of values."""


class FusedCoupling(nn.Module):
    """Sequences ``(..., τ)`` to ``(..., τ)``, or to ``(M, ..., τ)`` for M models.

    Args:
        features: the table of f̂, 2·head_dim + value_dim functions in the order of the module's text.
        outer: the table of F̂; None where F̂ is the identity on the only value.
        head_dim: m, the number of φ̂ and of ψ̂.
    """

    def __init__(
        self, features: KnotTable, outer: KnotTable | KuhnTable | None, head_dim: int
    ) -> None:
        super().__init__()
        self.features, self.outer, self.head_dim = features, outer, head_dim
        self.segmented = features.values.shape[-2] != features.pieces + 1

    @classmethod
    def of(
        cls,
        blueprint: CouplingBlueprint,
        dtype: torch.dtype = torch.float64,
        method: str = "gather",
    ) -> FusedCoupling:
        """Return the module of one blueprint."""
        low, high = (float(end) for end in blueprint.domain)
        values = torch.tensor(blueprint.features.values, dtype=dtype)
        segments = 1 if blueprint.positions is None else blueprint.tau
        features = KnotTable(values, low, high, segments, method)
        return cls(features, _outer([blueprint.outer], dtype, single=True), blueprint.head_dim)

    @classmethod
    def stack(
        cls,
        blueprints: Sequence[CouplingBlueprint],
        dtype: torch.dtype = torch.float64,
        method: str = "gather",
    ) -> FusedCoupling:
        """Return one module for several blueprints on the same knots, with a leading axis."""
        first = blueprints[0]
        shared = {(b.tau, b.domain, b.positions, b.features.knots, b.value_dim) for b in blueprints}
        if len(shared) != 1:
            raise InputError("models that are stacked need the same tokens, knots and value rows")
        largest = max(b.head_dim for b in blueprints)
        values = torch.stack([_padded(b, largest, dtype) for b in blueprints])
        low, high = (float(end) for end in first.domain)
        segments = 1 if first.positions is None else first.tau
        features = KnotTable(values, low, high, segments, method)
        return cls(features, _outer([b.outer for b in blueprints], dtype, single=False), largest)

    @property
    def models(self) -> int | None:
        """The number M of models, or None without such an axis."""
        return self.features.models

    def forward(self, x: Tensor, per_model: bool = False, record: Record | None = None) -> Tensor:
        """Evaluate; with ``per_model`` x has the leading axis M, each model reads its own.

        ``record`` is given the name and the tensor of everything on the way.
        """
        with full_precision(x.device):
            hidden = self._hidden(x, per_model)
            scores, values = self._scores_and_values(hidden)
            weights = torch.softmax(scores, dim=-1)
            mixed = weights @ values
            if record is not None:
                for name, tensor in zip(STEPS, (hidden, scores, weights, mixed), strict=True):
                    record(name, tensor)
            if self.outer is None:
                return mixed[..., 0]
            read = mixed[..., 0] if isinstance(self.outer, KnotTable) else mixed
            return self.outer(read, per_model=self.models is not None)[..., 0]

    def attention(self, x: Tensor, per_model: bool = False) -> Tensor:
        """Return the attention matrices, ``(..., τ, τ)``, one row a query."""
        with full_precision(x.device):
            scores, _ = self._scores_and_values(self._hidden(x, per_model))
            return torch.softmax(scores, dim=-1)

    def _hidden(self, x: Tensor, per_model: bool) -> Tensor:
        segment = torch.arange(x.shape[-1], device=x.device) if self.segmented else None
        hidden: Tensor = self.features(x, segment, per_model)
        return hidden

    def _scores_and_values(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        m = self.head_dim
        query, key, values = hidden[..., :m], hidden[..., m : 2 * m], hidden[..., 2 * m :]
        return query @ key.transpose(-1, -2), values

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        """Evaluate; see :meth:`forward`."""
        return cast(Tensor, super().__call__(*args, **options))


def _padded(blueprint: CouplingBlueprint, head_dim: int, dtype: torch.dtype) -> Tensor:
    values, m = torch.tensor(blueprint.features.values, dtype=dtype), blueprint.head_dim
    none = values.new_zeros(len(values), head_dim - m)
    parts = [values[:, :m], none, values[:, m : 2 * m], none, values[:, 2 * m :]]
    return torch.cat(parts, dim=1)


def _outer(
    functions: Sequence[Interpolant | KuhnInterpolant], dtype: torch.dtype, single: bool
) -> KnotTable | KuhnTable:
    """Return the tables of F̂, each on its own interval or box."""
    stacked = torch.tensor(np.stack([function.values for function in functions]), dtype=dtype)
    boxes = [
        function.knots.intervals if isinstance(function, Interpolant) else function.box
        for function in functions
    ]
    ends = torch.tensor(
        [[[float(v) for v in interval] for interval in box] for box in boxes], dtype=torch.float64
    )
    low, high = ends.unbind(dim=-1)
    values = stacked[0] if single else stacked
    if all(isinstance(function, Interpolant) for function in functions):
        low, high = (low[0, 0], high[0, 0]) if single else (low[:, 0], high[:, 0])
        return KnotTable(values, low, high)
    return KuhnTable(values, *((low[0], high[0]) if single else (low, high)))
