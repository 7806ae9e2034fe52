"""What smaller heads change, measured: scores, attention and outputs of both models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.spectra.batches import Batch
from exactformer.spectra.scores import Scores
from exactformer.spectra.shrinking.layers import Layer, paired
from exactformer.spectra.switches import fused

_OUTPUTS = ("last_hidden_state", "logits", "prediction_logits")


@dataclass(frozen=True)
class Change:
    """How far the attention of one layer moved, by query head."""

    error: Tensor
    """Squared error of the scores, each query's mean over the keys it sees taken away."""
    total: Tensor
    """Squared scores, in the same sense."""
    attention: Tensor
    """Mean total variation ½ Σ |p − p'| over queries."""


def measure(
    original: nn.Module, changed: nn.Module, layers: Sequence[Layer], inputs: Sequence[Batch]
) -> dict[str, Change]:
    """Return the change of each layer, summed over its calls and all inputs."""
    names = [call for layer in layers for call in layer.calls]
    sums: dict[str, Tensor] = {}
    for pairs in paired(original, changed, inputs, names):
        for call, (was, now) in pairs.items():
            name = call.partition("#")[0]
            sums[name] = sums.get(name, torch.zeros(4, was.heads)) + _compared(was, now).cpu()
    return {
        name: Change(error, total, variation / queries.clamp(min=1))
        for name, (error, total, variation, queries) in sums.items()
    }


def output_change(original: nn.Module, changed: nn.Module, inputs: Sequence[Batch]) -> float:
    """Return ‖o' − o‖ / ‖o‖ over all inputs, at tokens that are there."""
    difference = size = 0.0
    for batch in inputs:
        was, now = outputs(original, batch), outputs(changed, batch)
        mask = batch.named("attention_mask")
        if mask is not None and was.ndim == 3 and mask.shape == was.shape[:2]:
            was, now = was[mask.bool()], now[mask.bool()]
        difference += float((now - was).square().sum())
        size += float(was.square().sum())
    return (difference / size) ** 0.5 if size else 0.0


def outputs(model: nn.Module, batch: Batch) -> Tensor:
    """Return the tensor that a model ends in: hidden states, logits, or its first output."""
    with torch.no_grad(), fused(model):
        result = batch.call(model)
    found = _first_tensor(result)
    if found is None:
        raise InputError(
            f"{type(model).__name__} returns {type(result).__name__} and no tensor in it: wrap it in a "
            "module that returns what is to be kept"
        )
    return found.double()


def _first_tensor(result: Any) -> Tensor | None:
    if isinstance(result, Tensor):
        return result if result.is_floating_point() else None
    if isinstance(result, Mapping):
        named = [result[name] for name in _OUTPUTS if name in result]
        parts = [*named, *result.values()]
    else:
        parts = list(result) if isinstance(result, tuple | list) else []
    return next((t for t in map(_first_tensor, parts) if t is not None), None)


def _compared(was: Scores, now: Scores) -> Tensor:
    """Return (4, heads): error, total, summed variation and number of queries."""
    sums = torch.zeros(4, was.heads, dtype=torch.float64, device=was.queries.device)
    seen_by, added = was.visible, was.additive
    if added is not None:
        shape = (*was.queries.shape[:3], was.keys.shape[2])
        added = added.expand(shape)
    for index in range(len(was.queries)):
        rows = seen_by[index].sum(dim=1) > 1
        seen = seen_by[index][rows]
        if not len(seen):
            continue
        bias = None if added is None else added[index][:, rows]
        counts = seen.sum(dim=1, keepdim=True)
        old, new = (scores.products(index, rows) for scores in (was, now))
        old, new = ((x - (x * seen).sum(dim=-1, keepdim=True) / counts) * seen for x in (old, new))
        p, q = (_softmax(x, bias, seen) for x in (old, new))
        sums[0] += (new - old).square().sum(dim=(-2, -1))
        sums[1] += old.square().sum(dim=(-2, -1))
        sums[2] += (p - q).abs().sum(dim=(-2, -1)) / 2
        sums[3] += len(seen)
    return sums


def _softmax(products: Tensor, bias: Tensor | None, seen: Tensor) -> Tensor:
    total = products if bias is None else products + bias.double()
    return total.masked_fill(~seen, -torch.inf).softmax(dim=-1)
