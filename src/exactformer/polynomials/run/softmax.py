"""A softmax blueprint built of stock parts: ``nn.Linear`` and ``scaled_dot_product_attention``.

All heads of a block go through one call. A head's value matrix W_O W_V is split into its non-zero rows
and their places; queries, keys and values are padded with zeros to a common multiple of eight, the head
sizes that fused kernels accept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from exactformer.core.layers import Block, Rule
from exactformer.core.precision import full_precision
from exactformer.errors import ExecutionError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.literal import PointTransformer, rounded_weights

Weights = dict[str, tuple[Tensor, Callable[..., str]]]
"""Tensors by their names in the module, each with a way to name its places."""


class SoftmaxTransformer(PointTransformer):
    """Points to values by ordinary attention with residuals.

    Weights are the blueprint's, rounded once to the module's format, and frozen.
    """

    def __init__(self, blueprint: Blueprint, dtype: torch.dtype = torch.float64) -> None:
        tensors = {name: w for name, (w, _) in softmax_weights(blueprint, dtype).items()}
        blocks = [
            SharedAttention(
                len(block.attention.heads),
                {name: tensors[f"blocks.{b}.{name}.weight"] for name in _LAYERS},
            )
            for b, block in enumerate(blueprint.blocks)
        ]
        super().__init__(blueprint, tensors, blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Embed, attend block by block, read out."""
        with full_precision(x.device):
            stream = self.embedded(x)
            for block in self.blocks:
                stream = stream + block(stream)
            return self.read(stream)


class SharedAttention(nn.Module):
    """Multi-head softmax attention; logits are the scalar products themselves."""

    def __init__(self, heads: int, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (_linear(weights[name]) for name in _LAYERS)

    def forward(self, stream: Tensor) -> Tensor:
        """Return what attention adds to the stream ``(N, tokens, width)``."""
        query, key, value = (
            layer(stream).reshape(*stream.shape[:-1], self.heads, -1).transpose(-2, -3)
            for layer in (self.query, self.key, self.value)
        )
        mixed = scaled_dot_product_attention(query, key, value, scale=1.0)
        added: Tensor = self.output(mixed.transpose(-2, -3).flatten(-2))
        return added


_LAYERS = ("query", "key", "value", "output")
_HEAD_SIZE = 8


def softmax_weights(blueprint: Blueprint, dtype: torch.dtype) -> Weights:
    """Return every tensor of the module, each entry rounded once."""
    tensors = rounded_weights(blueprint, dtype)
    blocks = [f"blocks.{b}." for b in range(blueprint.depth)]
    weights: Weights = {
        path.removeprefix("embedding."): (tensor, partial(blueprint.place, path))
        for path, tensor in tensors.items()
        if not path.startswith("blocks.")
    }
    for b, (path, block) in enumerate(zip(blocks, blueprint.blocks, strict=True), start=1):
        if block.attention.selection.rule is not Rule.SOFTMAX or block.feed_forward.w1.rows:
            raise ExecutionError(f"block {b} is not plain softmax attention")
        for name, stacked in _stacked(block, path, tensors).items():
            weights[f"{path}{name}.weight"] = stacked, partial(_place, b, name)
    return weights


def _stacked(block: Block, path: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    heads = block.attention.heads
    rows = max(max(head.query.rows, len(head.value.by_row)) for head in heads)
    rows += -rows % _HEAD_SIZE
    stacks: dict[str, list[Tensor]] = {name: [] for name in _LAYERS}
    for h, head in enumerate(heads):
        query, key, value = (tensors[f"{path}heads.{h}.{m}"] for m in ("query", "key", "value"))
        kept = sorted(head.value.by_row)
        for name, matrix in (("query", query), ("key", key), ("value", value[kept])):
            stacks[name].append(pad(matrix, (0, 0, 0, rows - len(matrix))))
        place = torch.zeros(len(value), rows, dtype=value.dtype)
        place[kept, torch.arange(len(kept))] = 1
        stacks["output"].append(place)
    return {name: torch.cat(s, dim=1 if name == "output" else 0) for name, s in stacks.items()}


def _place(block: int, name: str, row: int, column: int) -> str:
    return f"block {block}, {name} projection of all heads, row {row + 1}, column {column + 1}"


def _linear(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer
