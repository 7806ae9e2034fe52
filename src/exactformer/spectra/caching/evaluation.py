"""Loss on text, strain, and bytes in the cache of a language model, measured."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.caching.model import LatentCacheForCausalLM

_CHUNK = 128
"""Tokens whose logits are held at once."""


@torch.no_grad()
def losses(model: nn.Module, windows: Tensor) -> Tensor:
    """Return the mean loss of every window (windows, length), in nats for each predicted token."""
    found = []
    for window in windows:
        logits = model(input_ids=window[None], use_cache=False).logits[0, :-1]
        labels = window[1:]
        parts = [
            nn.functional.cross_entropy(part.float(), y, reduction="sum")
            for part, y in zip(logits.split(_CHUNK), labels.split(_CHUNK), strict=True)
        ]
        found.append(torch.stack(parts).sum() / len(labels))
    return torch.stack(found).double().cpu()


def losses_and_strains(model: LatentCacheForCausalLM, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss and the strain of every window."""
    found, strains = [], []
    with model.watched():
        for window in windows:
            found.append(losses(model, window[None]))
            strains.append(model.strain())
    return torch.cat(found), torch.tensor(strains, dtype=torch.float64)


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
