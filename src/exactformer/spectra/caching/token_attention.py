"""Attention of one new token to latents: keys are rebuilt and turned, values rebuilt once.

On a GPU :mod:`~exactformer.spectra.caching.token_attention_gpu` does it in one pass, where
:func:`refusal` has nothing against it; everywhere else, here, torch's own operations do.

Latents are mixed as they are, Σ p_t v_t = D_V Σ p_t c_t + d_V. The first token of a text is not a
latent and counts by itself. Keys lie in memory by coordinate, (head dim, tokens), as latents do: a
plane is turned by products of whole rows, and on a processor a block of tokens stays in its cache
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from exactformer.spectra.caching.rotary import Sizes, by_head

_BLOCK = 2048
"""Tokens whose keys a processor rebuilds at a time."""
_FORMATS = (torch.float32, torch.float16, torch.bfloat16)
"""Of the GPU's kernel."""
_OLDEST = (8, 0)
"""Compute capability of the first GPUs that multiply bfloat16."""


@dataclass(frozen=True)
class Held:
    """What one layer reads: latents of the layers below and its own, and the map to its states."""

    latents: Sequence[Tensor]
    """(batch, rank, tokens) each."""
    weight: Tensor
    """(state, all ranks)."""
    bias: Tensor
    first: Tensor
    """(batch, state): first tokens as they are."""
    places: Tensor
    """(batch,): where they stand."""

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.latents[0].shape[2]

    def maps(self) -> list[Tensor]:
        """Return the map's columns for each of the latents."""
        return list(torch.split(self.weight, [x.shape[1] for x in self.latents], dim=1))


def visible(mask: Tensor | None, texts: int, length: int) -> Tensor | None:
    """Return (texts, tokens): what the newest token may look at; a mask is as transformers makes it."""
    if mask is None:
        return None
    row = mask[:, 0, -1, :length]
    return (row if row.dtype == torch.bool else row > -1).expand(texts, -1)


def attend(
    query: Tensor, held: Held, seen: Tensor | None, cos: Tensor, sin: Tensor, sizes: Sizes
) -> Tensor:
    """Return the output (batch, heads, head dim), by torch.

    Queries come before rotation; cosines and sines are (batch, planes, tokens).
    """
    texts, keys, near = len(query), sizes.keys, held.places[:, None, None]
    turned = torch.cat(_turned(query[..., None].clone(), cos[:, :, -1:], sin[:, :, -1:]), dim=2)
    grouped = turned.reshape(texts, sizes.key_heads, sizes.shared, -1)
    block = _BLOCK if query.device.type == "cpu" else held.length
    parts = [
        _scores(grouped, held, cos, sin, sizes, slice(start, start + block))
        for start in range(0, held.length, block)
    ]
    scores = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
    exact = by_head(held.first[:, :keys].clone(), sizes.key_heads)[..., None]
    angles = (x.take_along_dim(near, 2) for x in (cos, sin))
    exact = grouped @ torch.cat(_turned(exact, *angles), dim=2)
    scores = scores.scatter(-1, near[..., None].expand_as(exact), exact) * sizes.scale
    if seen is not None:
        scores = scores.masked_fill(~seen[:, None, None], torch.finfo(scores.dtype).min)
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.softmax(dim=-1, dtype=wide).to(query.dtype)
    share = weights.take_along_dim(near[..., None], -1)
    others = weights.scatter(-1, near[..., None].expand_as(share), 0.0).flatten(1, 2)
    value_bias, own = (by_head(x[..., keys:], sizes.key_heads) for x in (held.bias, held.first))
    mixed = share * own[:, :, None] + (1 - share) * value_bias[:, None]
    for latents, weight in zip(held.latents, held.maps(), strict=True):
        sums = torch.unflatten((latents @ others.mT).mT, 1, (sizes.key_heads, -1))
        mixed = mixed + sums @ torch.unflatten(weight[keys:], 0, (sizes.key_heads, -1)).mT
    return mixed.flatten(1, 2)


def _scores(
    grouped: Tensor, held: Held, cos: Tensor, sin: Tensor, sizes: Sizes, tokens: slice
) -> Tensor:
    """Return scores of some tokens; keys are rebuilt as (batch, key heads, head dim, tokens)."""
    keys = held.bias[: sizes.keys, None].expand(len(grouped), -1, 1)
    for i, (latents, weight) in enumerate(zip(held.latents, held.maps(), strict=True)):
        part = weight[: sizes.keys].expand(len(grouped), -1, -1), latents[:, :, tokens]
        again = i > 0 and not keys.requires_grad
        keys = keys.baddbmm_(*part) if again else torch.baddbmm(keys, *part)
    apart = torch.unflatten(keys, 1, (sizes.key_heads, -1))
    turned = _turned(apart, cos[..., tokens], sin[..., tokens])
    queries = torch.split(grouped, [x.shape[2] for x in turned], dim=3)
    scores = queries[0] @ turned[0]
    for query, rows in zip(queries[1:], turned[1:], strict=True):
        scores = scores + query @ rows
    return scores


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
    """Turn heads (batch, heads, head dim, tokens): first coordinates of planes, second, and the rest.

    Where no gradient is wanted, ``x`` is overwritten.
    """
    half, c, s = cos.shape[1], cos[:, None], sin[:, None]
    first, second, rest = torch.split(x, [half, half, x.shape[2] - 2 * half], dim=2)
    turned = torch.addcmul(first * c, second, s, value=-1)
    if x.requires_grad:
        second = torch.addcmul(second * c, first, s)
    else:
        second.mul_(c).addcmul_(first, s)
    return [turned, second, rest] if rest.shape[2] else [turned, second]


def refusal(query: Tensor, held: Held, sizes: Sizes) -> str | None:
    """Return why the GPU's kernel does not apply; None where it does."""
    tensors = (query, *held.latents, held.weight, held.bias, held.first)
    latents = held.latents[0]
    if not query.is_cuda:
        return f"the kernel is for GPUs of NVIDIA, not for {query.device.type}"
    if not _has_triton():
        return "Triton is not installed"
    if len(held.latents) > 1:
        return "keys are rebuilt from latents of several layers"
    if sizes.rotary_dim != sizes.head_dim:
        return "a part of each head is not turned"
    if query.dtype not in _FORMATS or any(t.dtype != query.dtype for t in tensors):
        return "the cache and the model are not of one format, float32, float16 or bfloat16"
    if any(t.device != query.device for t in tensors):
        return "the cache and the model are on different devices"
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        return "the model is being compiled"
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "a gradient is wanted"
    if latents.stride(2) != 1 or not held.weight.is_contiguous() or not held.bias.is_contiguous():
        return "the tensors do not lie in memory as the kernel reads them"
    if torch.cuda.get_device_capability(query.device) < _OLDEST:
        return "the GPU has no tensor cores for all formats"
    from exactformer.spectra.caching.token_attention_gpu import chosen, gpu

    shared, _ = gpu(query.device.index)
    if chosen(sizes, latents.shape[1], query.itemsize, shared) is None:
        return f"a map from {latents.shape[1]} numbers is too large for the kernel"
    return None


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
