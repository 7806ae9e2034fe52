"""Attention whose queries and keys have a smaller head than its values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.spectra.primitives import joined_masks

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
    mixed, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    return mixed, None


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


def _only_way(name: Any, *args: Any, **kwargs: Any) -> None:
    """Refuse another attention implementation: it would not know the values' pieces."""
    if name != _IMPLEMENTATION:
        raise ValueError(
            f"the heads of this model were shrunk: it attends by {_IMPLEMENTATION!r}, not {name!r}"
        )


class SmallHeadAttention(nn.Module):
    """``torch.nn.MultiheadAttention`` with queries and keys of ``head_dim`` and values as they were."""

    def __init__(
        self, like: nn.MultiheadAttention, head_dim: int, scale: float, bias: bool = True
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = like.embed_dim, like.num_heads
        self.head_dim, self.scale, self.dropout = head_dim, scale, like.dropout
        self.batch_first = like.batch_first
        self._qkv_same_embed_dim = False  # torch's encoder layer then takes no short cut past us
        self.in_proj_bias = None
        some = like.out_proj.weight
        place: dict[str, Any] = {"device": some.device, "dtype": some.dtype, "bias": bias}
        self.q_proj = nn.Linear(like.embed_dim, like.num_heads * head_dim, **place)
        self.k_proj = nn.Linear(like.kdim, like.num_heads * head_dim, **place)
        self.v_proj = nn.Linear(like.vdim, like.embed_dim, **place)
        self.out_proj = nn.Linear(like.embed_dim, like.embed_dim, **place)

    @classmethod
    def narrowed(
        cls, module: nn.MultiheadAttention, head_dim: int, scale: float
    ) -> SmallHeadAttention:
        """Return a module with the first ``head_dim`` rows of each head's queries and keys."""
        small = cls(module, head_dim, scale, module.in_proj_bias is not None)
        packed = module.in_proj_weight
        weights = (
            (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
            if packed is None
            else packed.chunk(3)
        )
        layers = (small.q_proj, small.k_proj, small.v_proj)
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        for layer, weight, bias, cut in zip(
            layers, weights, biases, (True, True, False), strict=True
        ):
            layer.weight.data = small._first(weight, cut)
            if bias is not None:
                layer.bias.data = small._first(bias, cut)
        small.out_proj.load_state_dict(module.out_proj.state_dict())
        return small

    def _first(self, rows: Tensor | None, cut: bool) -> Tensor:
        assert rows is not None
        by_head = rows.detach().reshape(self.num_heads, -1, *rows.shape[1:])
        return (by_head[:, : self.head_dim] if cut else by_head).flatten(0, 1).clone()

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
            mixed = functional.scaled_dot_product_attention(
                q, k, v, mask, dropout, scale=self.scale
            )
        out = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if alone:
            return out[0], None if weights is None else weights[0]
        return out.transpose(0, 1) if turned else out, weights
