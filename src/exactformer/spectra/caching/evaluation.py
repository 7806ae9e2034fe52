"""Perplexity, bytes and time of a language model, measured."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

_CHUNK = 128
"""Tokens whose logits are held at once."""


@torch.no_grad()
def losses(
    model: nn.Module, windows: Tensor, tell: Callable[[int], None] = lambda done: None
) -> Tensor:
    """Return the mean loss of every window (windows, length), in nats for each predicted token."""
    found = []
    for done, window in enumerate(windows, start=1):
        logits = model(input_ids=window[None], use_cache=False).logits[0, :-1]
        labels = window[1:]
        parts = [
            nn.functional.cross_entropy(part.float(), y, reduction="sum")
            for part, y in zip(logits.split(_CHUNK), labels.split(_CHUNK), strict=True)
        ]
        found.append(sum(parts) / len(labels))
        tell(done)
    return torch.stack(found).double().cpu()  # type: ignore[arg-type]


@torch.no_grad()
def strains(model: Any, windows: Tensor) -> Tensor:
    """Return the strain of every window; see :meth:`LatentCacheForCausalLM.strain`."""
    found = []
    for attention in model.attentions():
        attention.watching = True
    for window in windows:
        cache = model.new_cache()
        model.network(input_ids=window[None], past_key_values=cache, use_cache=True)
        found.append(model.strain())
    return torch.tensor(found, dtype=torch.float64)


@torch.no_grad()
def cache_bytes(model: nn.Module, window: Tensor) -> float:
    """Return the bytes that a cache grows by with each token, measured between half a text and all."""
    sizes = []
    for length in (len(window) // 2, len(window)):
        cache: Any = model(input_ids=window[None, :length], use_cache=True).past_key_values
        sizes.append(_held(cache))
    return (sizes[1] - sizes[0]) / (len(window) - len(window) // 2)


def _held(cache: Any) -> int:
    if hasattr(cache, "nbytes"):
        return int(cache.nbytes)
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


@torch.no_grad()
def decoding_time(model: Any, window: Tensor, steps: int = 8) -> float:
    """Return seconds for each token written behind a text; the median of a few."""
    out = model(input_ids=window[None], use_cache=True, logits_to_keep=1)
    times = []
    token = out.logits[:, -1:].argmax(-1)
    for _ in range(steps):
        start = perf_counter()
        out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        times.append(perf_counter() - start)
    return sorted(times)[len(times) // 2]
