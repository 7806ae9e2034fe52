"""Attention whose queries and keys have a smaller head than its values.

On a processor torch's fast kernel wants one size for all three, and the one it falls back to is slower
than the larger head was. So queries and keys are filled up with zeros there where they meet, which
changes no product: weights and cache stay small. A few queries, as in generation, are quicker without a
copy of the cache, and a GPU has a fast kernel for two sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import has_torch_function

from exactformer.spectra.primitives import joined_masks
from exactformer.spectra.projections import packed_projections

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


def linear(weight: Tensor, bias: Tensor | None, transposed: bool = False) -> nn.Linear:
    """Return a linear layer of torch's, or of GPT-2's kind, with a weight given as (out, in)."""
    out, inputs = weight.shape
    with torch.device(weight.device):
        if transposed:
            from transformers.pytorch_utils import Conv1D

            new: nn.Linear = Conv1D(out, inputs)
        else:
            new = nn.Linear(inputs, out, bias=bias is not None, dtype=weight.dtype)
    new.weight.data = (weight.mT if transposed else weight).clone(
        memory_format=torch.contiguous_format
    )
    if bias is not None:
        new.bias.data = bias.detach().clone()
    return new


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
        self, like: nn.MultiheadAttention, projections: Sequence[nn.Linear], scale: float
    ) -> None:
        """Take the linear layers of queries, keys, values and outputs; the rest is as in ``like``."""
        super().__init__()
        self.embed_dim, self.num_heads = like.embed_dim, like.num_heads
        self.dropout, self.batch_first, self.scale = like.dropout, like.batch_first, scale
        self._qkv_same_embed_dim = False  # torch's encoder layer then takes no short cut past us
        self.in_proj_bias = None
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = projections
        self.head_dim, self.value_dim = (x.out_features // self.num_heads for x in projections[1:3])

    @classmethod
    def narrowed(
        cls, module: nn.MultiheadAttention, head_dim: int, value_dim: int | None, scale: float
    ) -> SmallHeadAttention:
        """Return a module with the first rows of each head's queries and keys, and of its values."""
        sizes = (head_dim, head_dim, value_dim or module.head_dim)
        layers = []
        for projection, size in zip(packed_projections("", module), sizes, strict=True):
            weight, bias = projection.matrix(module)[:, :size], projection.offset(module)
            rows = None if bias is None else bias[:, :size].flatten()
            layers.append(linear(weight.flatten(0, 1), rows))
        columns = torch.unflatten(module.out_proj.weight.detach(), 1, (module.num_heads, -1))
        layers.append(linear(columns[:, :, : sizes[2]].flatten(1), module.out_proj.bias))
        return cls(module, layers, scale)

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
        for parameter in module.parameters():
            parameter.data.zero_()
        layers = (self.q_proj, self.k_proj, self.v_proj)
        for own, projection in zip(layers, packed_projections("", module), strict=True):
            rows = projection.rows[:, : own.out_features // self.num_heads].flatten()
            projection.whole_weight(module)[rows] = own.weight.data
            if (bias := projection.whole_bias(module)) is not None:
                bias[projection.bias_start + rows] = own.bias.data
        columns = torch.unflatten(module.out_proj.weight.data, 1, (self.num_heads, -1))
        columns[:, :, : self.value_dim] = torch.unflatten(some.data, 1, (self.num_heads, -1))
        if self.out_proj.bias is not None:
            module.out_proj.bias.data = self.out_proj.bias.detach().clone()
        return module

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
