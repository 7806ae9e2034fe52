"""Attention whose queries and keys have a smaller head than its values.

On a processor torch's fast kernel wants one size for all three, and the one it falls back to is slower
than the larger head was. So queries and keys are filled up with zeros there where they meet, which
changes no product: weights and cache stay small. A few queries, as in generation, are quicker without a
copy of the cache, and a GPU has a fast kernel for two sizes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import has_torch_function

from exactformer.spectra.primitives import joined_masks

_FEW = 8
"""Queries up to which the slow kernel is the quicker one."""
_IMPLEMENTATION = "exactformer_small_heads"
"""The name under which Hugging Face models find :func:`small_heads`."""


def small_heads(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    """Attend as ``sdpa`` does, with values that were cut into pieces of the smaller head.

    A module that cuts everything into pieces of r gives values (B, h·m/r, τ, r): neighbouring pieces
    of a token, put together, are the h values of m that they were.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    heads = key.shape[1]
    if value.shape[1] != heads:
        batch, _, tokens, _ = value.shape
        value = value.transpose(1, 2).reshape(batch, tokens, heads, -1).transpose(1, 2)
    query, key = _as_wide_as(value, query, key)
    mixed, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    return mixed, None


def _as_wide_as(value: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Fill queries and keys up with zeros to the size of values, where that is faster.

    Not under a torch function mode: what watches attention is to see the head as it is.
    """
    missing = value.shape[-1] - query.shape[-1]
    slow = query.device.type == "cpu" and query.shape[-2] > _FEW
    if missing <= 0 or not slow or has_torch_function((query,)):
        return query, key
    return functional.pad(query, (0, missing)), functional.pad(key, (0, missing))


def register(model: nn.Module) -> None:
    """Have the Hugging Face models in a model attend by :func:`small_heads`, and no other way."""
    parts = [m for m in model.modules() if hasattr(m, "set_attn_implementation")]
    if not parts:
        return
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(_IMPLEMENTATION, small_heads)
    AttentionMaskInterface.register(_IMPLEMENTATION, sdpa_mask)
    for part in parts:
        part.config._attn_implementation = _IMPLEMENTATION  # type: ignore[union-attr]
        part.set_attn_implementation = _only_way  # type: ignore[assignment]


def unregister(model: nn.Module) -> None:
    """Take back :func:`register`."""
    for part in model.modules():
        if vars(part).pop("set_attn_implementation", None) is not None:
            part.config._attn_implementation = "sdpa"  # type: ignore[union-attr]


def _only_way(name: Any, *args: Any, **kwargs: Any) -> None:
    """Refuse another attention implementation: it would not know the values' pieces."""
    if name != _IMPLEMENTATION:
        raise ValueError(
            f"the heads of this model were shrunk: it attends by {_IMPLEMENTATION!r}, not {name!r}"
        )


class SmallHeadAttention(nn.Module):
    """``torch.nn.MultiheadAttention``: queries and keys of ``head_dim``, values of ``value_dim``."""

    def __init__(
        self,
        like: nn.MultiheadAttention,
        head_dim: int,
        value_dim: int,
        scale: float,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = like.embed_dim, like.num_heads
        self.head_dim, self.value_dim, self.scale = head_dim, value_dim, scale
        self.dropout = like.dropout
        self.batch_first = like.batch_first
        self._qkv_same_embed_dim = False  # torch's encoder layer then takes no short cut past us
        self.in_proj_bias = None
        some = like.out_proj.weight
        place: dict[str, Any] = {"device": some.device, "dtype": some.dtype, "bias": bias}
        self.q_proj = nn.Linear(like.embed_dim, like.num_heads * head_dim, **place)
        self.k_proj = nn.Linear(like.kdim, like.num_heads * head_dim, **place)
        self.v_proj = nn.Linear(like.vdim, like.num_heads * value_dim, **place)
        self.out_proj = nn.Linear(like.num_heads * value_dim, like.embed_dim, **place)

    @classmethod
    def narrowed(
        cls, module: nn.MultiheadAttention, head_dim: int, value_dim: int | None, scale: float
    ) -> SmallHeadAttention:
        """Return a module with the first rows of each head's queries and keys, and of its values."""
        width = value_dim or module.head_dim
        small = cls(module, head_dim, width, scale, module.in_proj_bias is not None)
        packed = module.in_proj_weight
        weights = (
            (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
            if packed is None
            else packed.chunk(3)
        )
        layers = (small.q_proj, small.k_proj, small.v_proj)
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        sizes = (head_dim, head_dim, width)
        for layer, weight, bias, size in zip(layers, weights, biases, sizes, strict=True):
            layer.weight.data = small._first(weight, size)
            if bias is not None:
                layer.bias.data = small._first(bias, size)
        small.out_proj.weight.data = small._first(module.out_proj.weight.mT, width).mT.contiguous()
        if module.out_proj.bias is not None:
            small.out_proj.bias.data = module.out_proj.bias.detach().clone()
        return small

    def widened(self, head_dim: int) -> nn.MultiheadAttention:
        """Return torch's own module with heads of ``head_dim``, zeros in the place of what is gone."""
        some = self.out_proj.weight
        module = nn.MultiheadAttention(
            self.embed_dim,
            self.num_heads,
            dropout=self.dropout,
            bias=self.q_proj.bias is not None,
            kdim=self.k_proj.in_features,
            vdim=self.v_proj.in_features,
            batch_first=self.batch_first,
            device=some.device,
            dtype=some.dtype,
        )
        layers = (self.q_proj, self.k_proj, self.v_proj)
        weights = [self._filled(layer.weight, head_dim) for layer in layers]
        if module.in_proj_weight is not None:
            module.in_proj_weight.data = torch.cat(weights)
        else:
            for letter, weight in zip("qkv", weights, strict=True):
                getattr(module, f"{letter}_proj_weight").data = weight
        if module.in_proj_bias is not None:
            module.in_proj_bias.data = torch.cat([self._filled(x.bias, head_dim) for x in layers])
            module.out_proj.bias.data = self.out_proj.bias.detach().clone()
        module.out_proj.weight.data = self._filled(some.mT, head_dim).mT.contiguous()
        return module

    def _filled(self, rows: Tensor, size: int) -> Tensor:
        by_head = rows.detach().reshape(self.num_heads, -1, *rows.shape[1:])
        whole = by_head.new_zeros(self.num_heads, size, *rows.shape[1:])
        whole[:, : by_head.shape[1]] = by_head
        return whole.flatten(0, 1)

    def _first(self, rows: Tensor | None, size: int) -> Tensor:
        assert rows is not None
        by_head = rows.detach().reshape(self.num_heads, -1, *rows.shape[1:])
        return by_head[:, :size].flatten(0, 1).clone()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the arguments of ``torch.nn.MultiheadAttention``."""
        alone = query.ndim == 2
        turned = not (self.batch_first or alone)
        if alone:
            query, key, value = (x[None] for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        mask = joined_masks(attn_mask, key_padding_mask, len(q), q.dtype)
        dropout = self.dropout if self.training else 0.0
        if need_weights:  # attention to the unit vectors is attention itself
            units = torch.eye(k.shape[2], dtype=q.dtype, device=q.device).expand(
                *k.shape[:2], -1, -1
            )
            weights = functional.scaled_dot_product_attention(
                q, k, units, mask, dropout, scale=self.scale
            )
            mixed = weights @ v
        else:
            weights = None
            q, k = _as_wide_as(v, q, k)
            mixed = functional.scaled_dot_product_attention(
                q, k, v, mask, dropout, scale=self.scale
            )
        out = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if alone:
            return out[0], None if weights is None else weights[0]
        return out.transpose(0, 1) if turned else out, weights
