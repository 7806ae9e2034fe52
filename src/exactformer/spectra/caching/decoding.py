"""Attention of one new token to latents: by the GPU's kernel where it applies, otherwise by torch.

Both score keys that are rebuilt and turned, mix latents by the scores, and rebuild values once:
Σ p_t v_t = D_V Σ p_t c_t + d_V. The first token of a text is no latent and counts by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.rotary import Sizes, by_head

_BLOCK = 2048
"""Tokens whose keys a processor rebuilds at a time: they stay in its cache."""
WIDEST = {torch.float32: 256, torch.float16: 1280, torch.bfloat16: 1280}
"""Numbers that the kernel rebuilds a key from at most: a tile of them is held at once."""
_ANGLES = 1e-4
"""Rounding of angles in float32, where rotations are compared."""


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
        return list(self.weight.split([x.shape[1] for x in self.latents], dim=1))


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
        sums = (latents @ others.mT).mT.unflatten(1, (sizes.key_heads, -1))
        mixed = mixed + sums @ weight[keys:].unflatten(0, (sizes.key_heads, -1)).mT
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
    turned = _turned(keys.unflatten(1, (sizes.key_heads, -1)), cos[..., tokens], sin[..., tokens])
    queries = grouped.split([part.shape[2] for part in turned], dim=3)
    scores = queries[0] @ turned[0]
    for query, part in zip(queries[1:], turned[1:], strict=True):
        scores = scores + query @ part
    return scores


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
    """Turn heads (batch, heads, head dim, tokens): first coordinates of planes, second, and the rest.

    Where no gradient is wanted, ``x`` is overwritten.
    """
    half, c, s = cos.shape[1], cos[:, None], sin[:, None]
    first, second, rest = x.split([half, half, x.shape[2] - 2 * half], dim=2)
    turned = torch.addcmul(first * c, second, s, value=-1)
    if x.requires_grad:
        second = torch.addcmul(second * c, first, s)
    else:
        second.mul_(c).addcmul_(first, s)
    return [turned, second, rest] if rest.shape[2] else [turned, second]


def refusal(query: Tensor, held: Held, state: LatentCache, rotary: nn.Module) -> str | None:
    """Return why the kernel does not apply; None where it does."""
    tensors = (query, *held.latents, held.weight, held.bias, held.first)
    if query.device.type != "cuda" and not _interpreted():
        return f"a kernel is for GPUs of NVIDIA, not for {query.device.type}"
    if not has_triton():
        return "Triton is not installed"
    if query.dtype not in WIDEST:
        return f"the kernel does not compute in {query.dtype}"
    if any(t.dtype != query.dtype or t.device != query.device for t in tensors):
        return "the cache and the model differ in format or device"
    if torch.compiler.is_compiling():
        return "the model is being compiled"
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "a gradient is wanted"
    if any(t.stride(2) != 1 for t in held.latents):
        return "the cache was written with gradients"
    if held.weight.shape[1] > WIDEST[query.dtype]:
        return f"keys are rebuilt from {held.weight.shape[1]} numbers, too many for the kernel"
    if not state.steady:
        return "positions do not go up by one"
    return None if _turns_evenly(rotary) else "the rotation is not that of multiples of an angle"


def attend_on_gpu(
    query: Tensor, held: Held, seen: Tensor | None, state: LatentCache, rotary: Any, sizes: Sizes
) -> Tensor:
    """Return the output (batch, heads, head dim) by the kernel; queries come before rotation."""
    from exactformer.spectra.caching import decoding_gpu

    form = decoding_gpu.chosen(held.weight)
    return decoding_gpu.attend(
        query.contiguous(),
        held.latents,
        held.weight.contiguous(),
        held.bias,
        held.first.contiguous(),
        held.places,
        None if seen is None else seen.contiguous(),
        state.tables(rotary.inv_freq, form.tile),
        sizes,
        form,
        float(rotary.attention_scaling),
    )


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def _interpreted() -> bool:
    """Whether Triton's interpreter runs kernels on the processor, as tests ask it to."""
    if not has_triton():
        return False
    from triton import knobs  # type: ignore[import-not-found,unused-ignore]

    return bool(knobs.runtime.interpret)


def _turns_evenly(rotary: Any) -> bool:
    """Whether a module's angles are positions times its frequencies, checked once for each module."""
    known = getattr(rotary, "_turns_evenly", None)
    if known is None:
        known = hasattr(rotary, "inv_freq") and hasattr(rotary, "attention_scaling")
        if known:
            like = rotary.inv_freq.new_zeros(1, dtype=torch.float32)
            at = torch.tensor([[0, 1, 3, 17, 100]], device=like.device)
            angles = at[0, :, None] * rotary.inv_freq.double()
            given = torch.stack(rotary(like, at))[:, 0].double()
            ours = torch.stack([angles.cos(), angles.sin()]) * rotary.attention_scaling
            ours = torch.cat([ours, ours], dim=-1)
            known = given.shape == ours.shape and bool((given - ours).abs().max() < _ANGLES)
        rotary._turns_evenly = known
    return bool(known)
