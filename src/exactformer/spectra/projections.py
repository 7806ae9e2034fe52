"""Finding W_Q, W_K and W_V: linear layers beside an attention call, by the names that models use.

A fused layer gives queries, keys and values at once, in *blocks* (all queries, all keys, all values) or
*by head* (query, key, value of the first head, then of the second). Whether the layer's output is the
query itself, or is rotated or normalised first, is not assumed but measured: both are at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from exactformer.spectra.primitives import Attention
from exactformer.spectra.scores import Projection

_SEPARATE = (
    ("query", "key", "value"),
    ("q_proj", "k_proj", "v_proj"),
    ("q", "k", "v"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("wq", "wk", "wv"),
)
_BLOCKS = ("c_attn", "qkv", "qkv_proj", "incoming", "to_qkv", "Wqkv", "in_proj")
_BY_HEAD = ("query_key_value",)


@dataclass(frozen=True)
class Found:
    """The projections of one attention module."""

    query: Projection
    key: Projection
    value: Projection | None
    same: bool
    """Whether queries and keys read the same tokens."""


@dataclass(frozen=True)
class Passed:
    """What went through a linear layer: its name, itself, its input and its output."""

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear map: torch's, or the transposed one of GPT-2."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def of_linear(name: str, module: nn.Module, rows: Tensor, plain: bool = True) -> Projection:
    """Return rows of a linear layer as a projection."""
    bias = "bias" if getattr(module, "bias", None) is not None else None
    return Projection(name, "weight", bias, rows, not isinstance(module, nn.Linear), plain)


def projections(attention: Attention, layers: Mapping[str, Passed]) -> Found | None:
    """Return the projections among the layers that ran in a module; None if names say nothing."""
    heads, m = attention.queries.shape[1], attention.queries.shape[-1]
    width = m if attention.values is None else attention.values.shape[-1]
    for query, *others in _SEPARATE:
        if query in layers and others[0] in layers:
            parts = [
                (layers[name], _rows(_width(layers[name]) // size, size))
                for name, size in zip(others, (m, width), strict=True)
                if name in layers
            ]
            return _found(attention, (layers[query], _rows(heads, m)), *parts)
    for name in _BLOCKS:
        if name in layers:
            fused = layers[name]
            apart = layers.get("q_attn")  # GPT-2's attention to another sequence
            start = 0 if apart else heads * m
            groups = max(0, (_width(fused) - start) // (m + width))
            keys, values = _rows(groups, m, start), _rows(groups, width, start + groups * m)
            query_part = (apart or fused, _rows(heads, m))
            return _found(attention, query_part, (fused, keys), (fused, values))
    for name in _BY_HEAD:
        if name in layers and _width(layers[name]) == 3 * heads * m and width == m:
            rows = (_rows(heads, m, place * m, 3 * m) for place in range(3))
            return _found(attention, *((layers[name], part) for part in rows))
    return None


def packed_projections(
    name: str, module: nn.MultiheadAttention
) -> tuple[Projection, Projection, Projection]:
    """Return the projections of torch's own module, which keeps all three in one matrix or apart."""
    heads, m = module.num_heads, module.head_dim
    packed = module.in_proj_weight is not None
    bias = "in_proj_bias" if module.in_proj_bias is not None else None
    query, key, value = (
        Projection(
            name,
            "in_proj_weight" if packed else f"{letter}_proj_weight",
            bias,
            _rows(heads, m, start if packed else 0),
            transposed=False,
            plain=True,
            bias_start=0 if packed else start,
        )
        for letter, start in (("q", 0), ("k", heads * m), ("v", 2 * heads * m))
    )
    return query, key, value


def same_tokens(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are one."""
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape


def _width(passed: Passed) -> int:
    return passed.output.shape[-1]


def _rows(heads: int, m: int, start: int = 0, stride: int | None = None) -> Tensor:
    return start + torch.arange(heads)[:, None] * (stride or m) + torch.arange(m)


def _found(attention: Attention, *parts: tuple[Passed, Tensor]) -> Found | None:
    """Return the projections of queries, keys and, where they are there, values."""
    products = (attention.queries, attention.keys, attention.values)
    query, key, *value = (
        None if product is None else _projection(*part, product)
        for part, product in zip(parts, products, strict=False)
    )
    if query is None or key is None:
        return None
    same = same_tokens(parts[0][0].input, parts[1][0].input)
    return Found(query, key, value[0] if value else None, same)


def _projection(passed: Passed, rows: Tensor, product: Tensor) -> Projection | None:
    """Return what a layer's rows give; None where they do not fit the heads of the product."""
    if not len(rows) or product.shape[1] % len(rows) or rows.max() >= _width(passed):
        return None
    output, product = passed.output, product[:, :: product.shape[1] // len(rows)]
    gathered = output[..., rows.to(output.device)]  # (B, τ, heads, m)
    plain = gathered.ndim == 4 and gathered.shape[:2] == (product.shape[0], product.shape[2])
    plain = plain and torch.equal(gathered.transpose(1, 2), product)
    return of_linear(passed.name, passed.module, rows, bool(plain))
