"""Watching the primitives that attention is made of, while a model runs as it always does.

A torch function mode sees each call of

    scaled_dot_product_attention(q, k, v, …)     what most models of today end in
    multi_head_attention_forward(x, y, z, …)     torch.nn.MultiheadAttention
    softmax                                      written out by hand

with the very tensors that meet in the product, so nothing of a model has to be known or written again.
The operators that the first two consist of run inside ``accounted``: they are read already.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SOFTMAX = {functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
_READ = {functional.scaled_dot_product_attention, functional.multi_head_attention_forward}
_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)


@dataclass(frozen=True)
class Attention:
    """One product of queries and keys, as the model passed it on."""

    queries: Tensor
    """(B, heads, τ_q, m), not yet times the scale."""
    keys: Tensor
    """(B, heads or kv_heads, τ_k, m)."""
    mask: Tensor | None = None
    causal: bool = False
    scale: float = 1.0
    values: Tensor | None = None
    mixed: Tensor | None = None
    """Attention times values, as the model has it."""
    probabilities: Tensor | None = None
    """The model's own attention, where it forms it."""
    added_keys: int = 0
    """Keys at the end that are no tokens (``bias_k``, ``add_zero_attn``)."""
    inputs: tuple[Tensor, Tensor] | None = None
    """What queries and keys were projected from, where known."""


class Primitives(TorchFunctionMode):
    """Reports attention and softmax calls; ``whole`` asks for the model's own probabilities too."""

    def __init__(
        self,
        attention: Callable[[Attention], None],
        softmax: Callable[[Tensor], None],
        whole: bool = False,
        accounted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__()
        self._attention, self._softmax, self._whole = attention, softmax, whole
        self._accounted = accounted

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry a call out and report it."""
        kwargs = kwargs or {}
        if func in _READ:
            with self._accounted():
                return self._read(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in _SOFTMAX:
            self._softmax(result)
        return result

    def _read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            self._attention(_dot_product(result, *args, **kwargs))
        else:
            call = dict(_SIGNATURE.bind(*args, **kwargs).arguments)
            self._attention(_multi_head(call, self._whole))
        return result


def _dot_product(
    mixed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attention:
    if query.ndim == 3:  # no axis for heads: there is one
        query, key, value, mixed = (x.unsqueeze(1) for x in (query, key, value, mixed))
        if attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask.unsqueeze(1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return Attention(query, key, attn_mask, bool(is_causal), factor, value, mixed)


def _multi_head(call: dict[str, Any], whole: bool) -> Attention:
    """Project as ``multi_head_attention_forward`` does; its inputs are (τ, B, width)."""
    x, y, heads = call["query"], call["key"], call["num_heads"]
    batched = x.ndim == 3
    rows = (t if batched else t.unsqueeze(1) for t in (x, y, call["value"]))
    biases = (None,) * 3 if call.get("in_proj_bias") is None else call["in_proj_bias"].chunk(3)
    if call.get("use_separate_proj_weight"):
        weights = tuple(call[f"{letter}_proj_weight"] for letter in "qkv")
    else:
        weights = call["in_proj_weight"].chunk(3)
    queries, keys, values = (
        functional.linear(t, w, b) for t, w, b in zip(rows, weights, biases, strict=True)
    )
    added = 0
    if call.get("bias_k") is not None:
        keys, added = torch.cat([keys, call["bias_k"].expand(1, *keys.shape[1:])]), added + 1
    if call.get("add_zero_attn"):
        keys, added = torch.cat([keys, keys.new_zeros(1, *keys.shape[1:])]), added + 1
    batch = queries.shape[1]
    queries, keys, values = (
        t.view(*t.shape[:2], heads, -1).permute(1, 2, 0, 3) for t in (queries, keys, values)
    )
    probabilities = None
    if whole:
        asked = call | {"need_weights": True, "average_attn_weights": False}
        own: Any = functional.multi_head_attention_forward(**asked)[1]
        probabilities = own if batched else own.unsqueeze(0)
    return Attention(
        queries,
        keys,
        joined_masks(
            call.get("attn_mask"), call.get("key_padding_mask"), batch, queries.dtype, added
        ),
        scale=1 / math.sqrt(queries.shape[-1]),
        values=None if added else values,
        probabilities=probabilities,
        added_keys=added,
        inputs=(x, y),
    )


def joined_masks(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, dtype: torch.dtype, added: int = 0
) -> Tensor | None:
    """Return the two masks of ``torch.nn.MultiheadAttention``, in which true hides, as one to add."""
    total: Tensor | None = None
    keys = None if padding is None else padding.view(-1, 1, 1, padding.shape[-1])
    for mask in (attn_mask, keys):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
        if mask.ndim == 3:
            mask = mask.view(batch, -1, *mask.shape[-2:])
        mask = functional.pad(mask, (0, added)).to(dtype)
        total = mask if total is None else total + mask
    return total
