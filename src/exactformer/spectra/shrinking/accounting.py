"""The report of smaller heads: what they save by count, what they change by measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.shrinking.attention import SmallHeadAttention
from exactformer.spectra.shrinking.calibration import Fitted
from exactformer.spectra.shrinking.forms import Form
from exactformer.spectra.shrinking.layers import Layer
from exactformer.spectra.shrinking.measurement import Change, measure, output_change
from exactformer.spectra.shrinking.report import HeadChange, Saving, ShrinkReport

_PADDED = (
    "new dimensions are filled up with zeros before the scores: weights are saved, the cache and the "
    "operations of the scores are not"
)


def account(
    original: nn.Module,
    small: nn.Module,
    inputs: Sequence[Batch],
    fitted: Sequence[Fitted],
    form: Form,
    method: str,
    metric: Callable[[nn.Module], float] | None,
    item_bytes: int,
) -> ShrinkReport:
    """Measure a model with smaller heads against the original and write the report."""
    layers = [f.plan.layer for f in fitted]
    changes = measure(original, small, layers, inputs)
    error, total = (
        sum(float(getattr(f, name).sum()) for f in fitted) for name in ("error", "total")
    )
    found = list(changes.values())
    sizes = [_scores_of(small, f, form) for f in fitted]
    return ShrinkReport(
        model=type(original).__name__,
        method=method,
        form=form,
        inputs=sum(_size(batch) for batch in inputs),
        heads=tuple(h for f in fitted for h in _heads(f, changes[f.plan.layer.name])),
        parameters=Saving(_count(original), _count(small)),
        projection_parameters=Saving(
            sum(_rows(original, layer, [layer.head_dim] * layer.kv_heads) for layer in layers),
            sum(_rows(original, f.plan.layer, f.plan.dims) for f in fitted),
        ),
        key_cache=Saving(
            sum(layer.kv_heads * layer.head_dim * item_bytes for layer in layers),
            sum(layer.kv_heads * r * item_bytes for r, layer in zip(sizes, layers, strict=True)),
        ),
        score_flops=Saving(
            sum(2 * layer.heads * layer.head_dim for layer in layers),
            sum(2 * layer.heads * r for r, layer in zip(sizes, layers, strict=True)),
        ),
        predicted_score_error=_relative(error, total),
        score_error=_relative(
            sum(float(c.error.sum()) for c in found), sum(float(c.total.sum()) for c in found)
        ),
        attention_change=float(torch.cat([c.attention for c in found]).mean()),
        output_change=output_change(original, small, inputs),
        metric=None if metric is None else Saving(float(metric(original)), float(metric(small))),
        note=_PADDED if form == "padded" else "",
    )


def _heads(fitted: Fitted, change: Change) -> list[HeadChange]:
    layer, share = fitted.plan.layer, fitted.plan.layer.heads // fitted.plan.layer.kv_heads
    return [
        HeadChange(
            layer=layer.name,
            head=head,
            head_dim=layer.head_dim,
            new_head_dim=fitted.plan.dims[head // share],
            energy=float(fitted.energy[head // share]),
            score_error=_relative(float(change.error[head]), float(change.total[head])),
            attention_change=float(change.attention[head]),
        )
        for head in range(layer.heads)
    ]


def _relative(error: float, total: float) -> float:
    return (error / total) ** 0.5 if total > 0 else 0.0


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _rows(model: nn.Module, layer: Layer, dims: Sequence[int]) -> int:
    """Return the weights and biases of queries and keys at given dimensions of the key heads."""
    queries, keys = layer.matrices(model)
    share = layer.heads // layer.kv_heads
    return sum(dims) * (share * queries.shape[-1] + keys.shape[-1])


def _scores_of(small: nn.Module, fitted: Fitted, form: Form) -> int:
    """Return the dimension that a layer's scores are computed with."""
    layer = fitted.plan.layer
    narrow = form == "small" or isinstance(small.get_submodule(layer.name), SmallHeadAttention)
    return max(fitted.plan.dims) if narrow else layer.head_dim


def _size(batch: Batch) -> int:
    return next((len(t) for t in batch.values if isinstance(t, torch.Tensor) and t.ndim), 1)
