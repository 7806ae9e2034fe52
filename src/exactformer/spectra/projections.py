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


Found = tuple[Projection, Projection, bool]
"""W_Q, W_K, and whether both read the same tokens."""


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


def projections(attention: Attention, layers: Mapping[str, Passed]) -> Found | None:
    """Return the projections among the layers that ran in a module; None if names say nothing."""
    heads, m = attention.queries.shape[1], attention.queries.shape[-1]
    for query, key, _ in _SEPARATE:
        if query in layers and key in layers:
            q, k = layers[query], layers[key]
            return _pair(attention, q, k, _rows(heads, m), _rows(_width(k) // m, m))
    if "q_attn" in layers and "c_attn" in layers:  # GPT-2's attention to another sequence
        q, k = layers["q_attn"], layers["c_attn"]
        return _pair(attention, q, k, _rows(heads, m), _rows(heads, m))
    for name in _BLOCKS:
        if name in layers:
            fused = layers[name]
            groups = (_width(fused) // m - heads) // 2
            keys = _rows(groups, m, heads * m)
            return _pair(attention, fused, fused, _rows(heads, m), keys)
    for name in _BY_HEAD:
        if name in layers and _width(layers[name]) == 3 * heads * m:
            fused = layers[name]
            keys = _rows(heads, m, m, 3 * m)
            return _pair(attention, fused, fused, _rows(heads, m, 0, 3 * m), keys)
    return None


def value_projection(attention: Attention, layers: Mapping[str, Passed]) -> Projection | None:
    """Return the projection of values among the layers that ran in a module, if names say it."""
    values = attention.values
    if values is None:
        return None
    heads, m, width = attention.queries.shape[1], attention.queries.shape[-1], values.shape[-1]
    for query, key, value in _SEPARATE:
        if query in layers and key in layers and value in layers:
            passed = layers[value]
            return _values(values, passed, _rows(_width(passed) // width, width))
    for name in _BLOCKS:  # values come last, whether queries stand there too or apart
        if name in layers:
            passed = layers[name]
            groups = (_width(passed) - (0 if "q_attn" in layers else heads * m)) // (m + width)
            return _values(values, passed, _rows(groups, width, _width(passed) - groups * width))
    for name in _BY_HEAD:
        if name in layers and _width(layers[name]) == 3 * heads * m and width == m:
            return _values(values, layers[name], _rows(heads, m, 2 * m, 3 * m))
    return None


def _values(values: Tensor, passed: Passed, rows: Tensor) -> Projection | None:
    groups = len(rows)
    if groups < 1 or values.shape[1] % groups or rows.max() >= _width(passed):
        return None
    return _projection(passed, rows, values[:, :: values.shape[1] // groups])


def packed_projections(
    name: str, module: nn.MultiheadAttention, attention: Attention
) -> tuple[Found, Projection]:
    """Return the projections of torch's own module, which keeps all three in one matrix or apart."""
    heads, m = attention.queries.shape[1], attention.queries.shape[-1]
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
    x, y = attention.inputs or (attention.queries, attention.keys)
    return (query, key, x.data_ptr() == y.data_ptr() and x.shape == y.shape), value


def _width(passed: Passed) -> int:
    return passed.output.shape[-1]


def _rows(heads: int, m: int, start: int = 0, stride: int | None = None) -> Tensor:
    return start + torch.arange(heads)[:, None] * (stride or m) + torch.arange(m)


def _pair(
    attention: Attention, q: Passed, k: Passed, query_rows: Tensor, key_rows: Tensor
) -> Found | None:
    heads, groups = attention.queries.shape[1], key_rows.shape[0]
    if groups < 1 or heads % groups or query_rows.max() >= _width(q) or key_rows.max() >= _width(k):
        return None
    keys = attention.keys
    if keys.shape[1] != groups:
        keys = keys[:, :: keys.shape[1] // groups]
    same = q.input.data_ptr() == k.input.data_ptr() and q.input.shape == k.input.shape
    return (_projection(q, query_rows, attention.queries), _projection(k, key_rows, keys), same)


def _projection(passed: Passed, rows: Tensor, product: Tensor) -> Projection:
    output = passed.output
    gathered = output[..., rows.to(output.device)]  # (B, τ, heads, m)
    plain = gathered.ndim == 4 and gathered.shape[:2] == (product.shape[0], product.shape[2])
    plain = plain and torch.equal(gathered.transpose(1, 2), product)
    return Projection(
        passed.name,
        "weight",
        "bias" if getattr(passed.module, "bias", None) is not None else None,
        rows,
        transposed=not isinstance(passed.module, nn.Linear),
        plain=bool(plain),
    )
