"""Layer after layer: the projections of a copy replaced by the best smaller ones.

Each layer is fitted on what it gets from the layers before it as they are by then, to the scores of the
original model. So the error that is left is the one that the finished model makes: its prediction from
moments is no estimate for that layer alone. Values follow the queries and keys of their layer.
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
from exactformer.spectra.shrinking.values import (
    FittedValues,
    ValueMoments,
    by_head,
    output_weight,
    project_values,
    value_moments,
    weight_moments,
)

Method = Literal["data", "weights"]
Choice = Callable[[Layer, Truncation, Truncation | None], tuple[Tensor, Tensor | None]]
"""Says the dimension of every key head of a layer, and of every head of values that shrink."""


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
    values: FittedValues | None = None


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
        fitted.append(_fit(original, changed, layer, inputs, choose, method))
        tell(done)
    return changed, fitted


def _moments(
    original: nn.Module, changed: nn.Module, layer: Layer, inputs: Sequence[Batch]
) -> Moments:
    collecting = MomentSums()
    for pairs in paired(original, changed, inputs, layer.calls):
        for was, now in pairs.values():
            collecting.add(was, now)
        if collecting.full:
            break
    return collecting.result(layer.name)


def _fit(
    original: nn.Module,
    changed: nn.Module,
    layer: Layer,
    inputs: Sequence[Batch],
    choose: Choice,
    method: Method,
) -> Fitted:
    moments = _moments(original, changed, layer, inputs)
    spectrum = _whitened(moments) if method == "data" else truncation(*_grams(original, layer))
    values = None if layer.value is None else _Values(original, changed, layer, inputs, method)
    dims, value_dims = choose(layer, spectrum, None if values is None else values.spectrum)
    left, right = spectrum.keep(dims)
    if method == "data":
        left, right = refined(moments, left, right)
    left, right = _strongest(left, right, dims)
    layer.project(changed, left, right)
    energy = spectrum.energy().gather(1, dims[:, None] - 1)[:, 0]
    error = moments.error(left, right)
    if values is None or value_dims is None:
        return Fitted(Plan(layer, tuple(dims.tolist())), energy, error, moments.total)
    kept = values.fit(value_dims)
    return Fitted(Plan(layer, tuple(dims.tolist()), kept.dims), energy, error, moments.total, kept)


class _Values:
    """Smaller values of one layer: their spectrum first, their fit once queries and keys are done."""

    def __init__(
        self,
        original: nn.Module,
        changed: nn.Module,
        layer: Layer,
        inputs: Sequence[Batch],
        method: Method,
    ) -> None:
        self._models, self._layer, self._inputs = (original, changed), layer, inputs
        self._method, self._weight = method, output_weight(original, layer)
        if method == "data":
            self.spectrum = _whitened(by_head(layer, self._weight, self._moments()))
        else:
            self.spectrum = truncation(*weight_moments(original, layer, self._weight))

    def fit(self, dims: Tensor) -> FittedValues:
        """Write values of these dimensions, fitted to what the new scores mix."""
        moments, layer = self._moments(), self._layer
        left, right = self.spectrum.keep(dims)
        if self._method == "data":
            heads = by_head(layer, self._weight, moments)
            left, right = refined(heads, *_whitened(heads).keep(dims))
        left, right = _strongest(left, right, dims)
        refit = self._method == "data"
        return project_values(*self._models, layer, moments, left, right, dims.tolist(), refit)

    def _moments(self) -> ValueMoments:
        return value_moments(*self._models, self._layer, self._inputs)


def _whitened(moments: Moments) -> Truncation:
    return truncation(moments.queries.sum(dim=0), moments.keys.sum(dim=0))


def _strongest(left: Tensor, right: Tensor, dims: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors balanced, without what lies beyond the dimension of each head."""
    left, right = balanced(left, right)
    kept = (torch.arange(left.shape[-1], device=dims.device) < dims[:, None])[:, None]
    return left * kept, right * kept


def _grams(model: nn.Module, layer: Layer) -> tuple[Tensor, Tensor]:
    """Return W_Q W_Qᵀ, summed over the query heads of a key head, and W_K W_Kᵀ.

    Biases count as weights of an input that is always 1.
    """
    queries, keys = layer.matrices(model)
    grams = (queries @ queries.mT).reshape(layer.kv_heads, -1, layer.head_dim, layer.head_dim)
    return grams.sum(dim=1), keys @ keys.mT
