"""Layer after layer: the projections of a copy replaced by the best smaller ones.

Each layer is fitted on what it gets from the layers before it as they are by then, to the scores of the
original model. So the error that is left is the one that the finished model makes: its prediction from
moments is no estimate for that layer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.shrinking.forms import Plan
from exactformer.spectra.shrinking.layers import Layer, paired
from exactformer.spectra.shrinking.moments import Moments, MomentSums
from exactformer.spectra.shrinking.solution import Truncation, balanced, refined, truncation

Method = Literal["data", "weights"]
Choice = Callable[[Layer, Truncation], Tensor]
"""Says the dimension of every key head of a layer."""


@dataclass(frozen=True)
class Fitted:
    """One layer with smaller heads."""

    plan: Plan
    energy: Tensor
    """Share of the energy of P^½ K^½ that each key head keeps."""
    error: Tensor
    """Predicted squared error of the scores, by key head."""
    total: Tensor
    """Squared scores, by key head; both over the pairs of tokens of all inputs."""


def calibrate(
    original: nn.Module,
    layers: Sequence[Layer],
    inputs: Sequence[Batch],
    choose: Choice,
    method: Method,
    tell: Callable[[int], None],
) -> tuple[nn.Module, list[Fitted]]:
    """Return a copy with smaller heads, zeros in the place of what is gone, and what was fitted."""
    changed = deepcopy(original)
    fitted = []
    for done, layer in enumerate(layers, start=1):
        moments = _moments(original, changed, layer, inputs)
        fitted.append(_fit(original, changed, layer, moments, choose, method))
        tell(done)
    return changed, fitted


def _moments(
    original: nn.Module, changed: nn.Module, layer: Layer, inputs: Sequence[Batch]
) -> Moments:
    collecting = MomentSums()
    for _, pairs in paired(original, changed, inputs, layer.calls):
        for was, now in pairs.values():
            collecting.add(was, now)
        if collecting.full:
            break
    return collecting.result(layer.name)


def _fit(
    original: nn.Module,
    changed: nn.Module,
    layer: Layer,
    moments: Moments,
    choose: Choice,
    method: Method,
) -> Fitted:
    if method == "data":
        spectrum = truncation(moments.queries.sum(dim=0), moments.keys.sum(dim=0))
    else:
        spectrum = truncation(*_grams(original, layer))
    dims = choose(layer, spectrum)
    left, right = spectrum.keep(dims)
    if method == "data":
        left, right = refined(moments, left, right)
    left, right = balanced(left, right)
    kept = (torch.arange(left.shape[-1], device=dims.device) < dims[:, None])[:, None]
    left, right = left * kept, right * kept
    layer.project(changed, left, right)
    energy = spectrum.energy().gather(1, dims[:, None] - 1)[:, 0]
    plan = Plan(layer, tuple(dims.tolist()))
    return Fitted(plan, energy, moments.error(left, right), moments.total)


def _grams(model: nn.Module, layer: Layer) -> tuple[Tensor, Tensor]:
    """Return W_Q W_Qᵀ, summed over the query heads of a key head, and W_K W_Kᵀ.

    Biases count as weights of an input that is always 1.
    """
    queries, keys = layer.matrices(model)
    grams = (queries @ queries.mT).reshape(layer.kv_heads, -1, layer.head_dim, layer.head_dim)
    return grams.sum(dim=1), keys @ keys.mT
