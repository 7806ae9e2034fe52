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
from exactformer.spectra.caching.rotary import Sizes, by_head, rotated

_BLOCK = 1024
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
    """Return the output (batch, heads, head dim), by torch; queries come before rotation."""
    texts, keys = torch.arange(len(query), device=query.device), sizes.keys
    turned = rotated(query[:, :, None], cos[:, -1:], sin[:, -1:])
    grouped = turned.reshape(len(query), sizes.key_heads, sizes.shared, -1)
    block = _BLOCK if query.device.type == "cpu" else held.length
    parts = [
        _scores(grouped, held, cos, sin, sizes, slice(start, min(start + block, held.length)))
        for start in range(0, held.length, block)
    ]
    scores = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
    exact = by_head(held.first[:, :keys], sizes.key_heads)[:, :, None]
    near = held.places[:, None, None]
    first = rotated(exact, *(x.take_along_dim(near, 1) for x in (cos, sin)))
    scores[texts, :, :, held.places] = (grouped @ first.mT)[..., 0]
    scores = scores * sizes.scale
    if seen is not None:
        scores = scores.masked_fill(~seen[:, None, None], torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
    share = weights.take_along_dim(held.places[:, None, None, None], -1)
    others = weights.scatter(-1, held.places[:, None, None, None].expand_as(share), 0.0)
    value_bias, own = (by_head(x[..., keys:], sizes.key_heads) for x in (held.bias, held.first))
    mixed = share * own[:, :, None] + (1 - share) * value_bias[:, None]
    for latents, weight in zip(held.latents, held.maps(), strict=True):
        sums = (others.flatten(1, 2) @ latents.mT).reshape(*others.shape[:3], -1)
        mixed = mixed + sums @ weight[keys:].reshape(sizes.key_heads, sizes.head_dim, -1).mT
    return mixed.flatten(1, 2)


def _scores(
    grouped: Tensor, held: Held, cos: Tensor, sin: Tensor, sizes: Sizes, tokens: slice
) -> Tensor:
    """Return scores of some tokens; keys are rebuilt as (batch, key heads, head dim, tokens)."""
    half = sizes.rotary_dim // 2
    keys = held.bias[: sizes.keys, None]
    for latents, weight in zip(held.latents, held.maps(), strict=True):
        part = weight[: sizes.keys] @ latents[:, :, tokens]
        keys = part.add_(keys) if not part.requires_grad else part + keys
    keys = torch.unflatten(keys, 1, (sizes.key_heads, sizes.head_dim))
    c, s = (x[:, tokens, :half].mT.contiguous()[:, None] for x in (cos, sin))
    x, y, rest = keys.split([half, half, sizes.head_dim - 2 * half], dim=2)
    turned = torch.addcmul(x * c, y, s, value=-1), torch.addcmul(y * c, x, s)
    p, q, r = grouped.split([half, half, sizes.head_dim - 2 * half], dim=3)
    scores = p @ turned[0] + q @ turned[1]
    return scores + r @ rest if rest.shape[2] else scores


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
