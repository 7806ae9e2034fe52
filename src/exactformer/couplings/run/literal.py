"""Equation (5) as PyTorch writes it: linear layers, ReLUs, softmax; every matrix of the blueprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.core.weights import dense
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Affine
from exactformer.couplings.run.fused import STEPS, Record
from exactformer.errors import SizeError

MOST_BYTES = 1 << 30
"""Of a network's weights as dense matrices; the second layer's grow as the square of the width."""


class LiteralCoupling(nn.Module):
    """Sequences ``(..., τ)`` to ``(..., τ)`` through ordinary layers, whose weights are parameters."""

    positions: Tensor

    def __init__(self, blueprint: CouplingBlueprint, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        check_layers((1, *blueprint.features.hidden, blueprint.features.outputs), dtype)
        check_layers((blueprint.value_dim, *blueprint.outer.hidden, 1), dtype)
        offsets = blueprint.positions or (0,) * blueprint.tau
        self.register_buffer("positions", torch.tensor([float(e) for e in offsets], dtype=dtype))
        self.feed_forward = _network(blueprint.features.layers(), "f", dtype)
        self.query = _linear(blueprint.query, None, "W_Q", dtype)
        self.key = _linear(blueprint.key, None, "W_K", dtype)
        self.value = _linear(blueprint.value, None, "W_V", dtype)
        self.outer = _network(blueprint.outer.layers(), "F", dtype)

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Evaluate; ``record`` is given the name and the tensor of everything on the way."""
        with full_precision(x.device):
            hidden = self.hidden(x)
            scores = self._scores(hidden)
            weights = torch.softmax(scores, dim=-1)
            mixed = weights @ self.value(hidden)
            if record is not None:
                for name, tensor in zip(STEPS, (hidden, scores, weights, mixed), strict=True):
                    record(name, tensor)
            return cast(Tensor, self.outer(mixed)[..., 0])

    def hidden(self, x: Tensor) -> Tensor:
        """Return ĥ = f̂(x + e), ``(..., τ, n)``: the named rows of the blueprint, as columns."""
        return cast(Tensor, self.feed_forward((x + self.positions)[..., None]))

    def attention(self, x: Tensor) -> Tensor:
        """Return the attention matrices, ``(..., τ, τ)``, one row a query."""
        with full_precision(x.device):
            return torch.softmax(self._scores(self.hidden(x)), dim=-1)

    def _scores(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.query(hidden) @ self.key(hidden).transpose(-1, -2)
        return scores


def check_layers(widths: Sequence[int], dtype: torch.dtype) -> None:
    """Refuse a feed-forward network whose dense weights would not fit, with figures."""
    size = sum(a * b + b for a, b in pairwise(widths)) * dtype.itemsize
    if size > MOST_BYTES:
        raise SizeError(
            f"layers of {', '.join(f'{width:,}' for width in widths)} units take "
            f"{size / 2**30:,.1f} GiB as dense matrices; the limit is {MOST_BYTES / 2**30:g}. Use "
            "executor='fused', which reads the same functions from tables, or a smaller ff_width"
        )


def _network(layers: Iterable[Affine], name: str, dtype: torch.dtype) -> nn.Sequential:
    parts: list[nn.Module] = []
    for number, layer in enumerate(layers, start=1):
        parts += [nn.ReLU()] if parts else []
        parts.append(_linear(layer.weight, layer.bias, f"layer {number} of {name}", dtype))
    return nn.Sequential(*parts)


def _linear(weight: Matrix, bias: Matrix | None, name: str, dtype: torch.dtype) -> nn.Linear:
    def place(i: int, j: int) -> str:
        return f"{name}, row {i + 1}, column {j + 1}"

    with torch.device("meta"):  # no memory for weights that are replaced at once
        linear = nn.Linear(weight.columns, weight.rows, bias=bias is not None, dtype=dtype)
    linear.weight = nn.Parameter(dense(weight, dtype, place))
    if bias is not None:
        linear.bias = nn.Parameter(dense(bias, dtype, place)[:, 0])
    return linear
