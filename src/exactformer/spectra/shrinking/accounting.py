"""The report of smaller heads: what they save by count, what they change by measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.shrinking.attention import SmallHeadAttention
from exactformer.spectra.shrinking.calibration import Fitted
from exactformer.spectra.shrinking.division import Division, size
from exactformer.spectra.shrinking.forms import Form
from exactformer.spectra.shrinking.layers import Layer
from exactformer.spectra.shrinking.measurement import Change, measure, output_change
from exactformer.spectra.shrinking.report import Errors, HeadChange, Saving, ShrinkReport
from exactformer.spectra.shrinking.values import output_weight

_PADDED = (
    "new dimensions are filled up with zeros before the scores: weights are saved, the cache and the "
    "operations of the scores are not"
)


def account(
    original: nn.Module,
    small: nn.Module,
    division: Division,
    fitted: Sequence[Fitted],
    form: Form,
    method: str,
    metric: Callable[[nn.Module], float] | None,
    item_bytes: int,
) -> ShrinkReport:
    """Measure a model with smaller heads against the original and write the report."""
    layers = [f.plan.layer for f in fitted]
    known, changes = _errors(original, small, layers, division.fitted)
    other = None
    if division.held_out:
        other, changes = _errors(original, small, layers, division.held_out)
    error, total = (
        sum(float(getattr(f, name).sum()) for f in fitted) for name in ("error", "total")
    )
    sizes = [_scores_of(small, f, form) for f in fitted]
    values = [f.values for f in fitted if f.values is not None]
    return ShrinkReport(
        model=type(original).__name__,
        method=method,
        form=form,
        heads=tuple(h for f in fitted for h in _heads(f, changes[f.plan.layer.name])),
        parameters=Saving(_count(original), _count(small)),
        projection_parameters=Saving(
            sum(_rows(original, layer, [layer.head_dim] * layer.kv_heads) for layer in layers)
            + sum(_value_rows(original, layer, layer.value_dim, True) for layer in layers),
            sum(_rows(original, f.plan.layer, f.plan.dims) for f in fitted)
            + sum(_value_rows_left(original, small, f, form) for f in fitted),
        ),
        key_cache=Saving(
            sum(layer.kv_heads * layer.head_dim * item_bytes for layer in layers),
            sum(layer.kv_heads * r * item_bytes for r, layer in zip(sizes, layers, strict=True)),
        ),
        value_cache=Saving(
            sum(layer.kv_heads * layer.value_dim * item_bytes for layer in layers),
            sum(f.plan.layer.kv_heads * _mixed_size(small, f, form) * item_bytes for f in fitted),
        )
        if values
        else None,
        score_flops=Saving(
            sum(2 * layer.heads * layer.head_dim for layer in layers),
            sum(2 * layer.heads * r for r, layer in zip(sizes, layers, strict=True)),
        ),
        predicted_score_error=_relative(error, total),
        predicted_value_error=_relative(sum(v.error for v in values), sum(v.total for v in values))
        if values
        else None,
        fitted=known,
        held_out=other,
        metric=None if metric is None else Saving(float(metric(original)), float(metric(small))),
        notes=tuple(n for n in (division.note, _PADDED if form == "padded" else "") if n),
    )


def _errors(
    original: nn.Module, small: nn.Module, layers: Sequence[Layer], inputs: Sequence[Batch]
) -> tuple[Errors, dict[str, Change]]:
    """Return the errors on some inputs, in all heads together and layer by layer."""
    changes = measure(original, small, layers, inputs)
    found = list(changes.values())
    errors = Errors(
        inputs=sum(size(batch) for batch in inputs),
        score_error=_relative(
            sum(float(c.error.sum()) for c in found), sum(float(c.total.sum()) for c in found)
        ),
        attention_change=float(torch.cat([c.attention for c in found]).mean()),
        output_change=output_change(original, small, inputs),
    )
    return errors, changes


def _heads(fitted: Fitted, change: Change) -> list[HeadChange]:
    layer, share = fitted.plan.layer, fitted.plan.layer.heads // fitted.plan.layer.kv_heads
    return [
        HeadChange(
            layer=layer.name,
            head=head,
            head_dim=layer.head_dim,
            new_head_dim=fitted.plan.dims[head // share],
            new_value_dim=None
            if fitted.plan.value_dims is None
            else fitted.plan.value_dims[head // share],
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


def _value_rows(model: nn.Module, layer: Layer, width: float, outputs: bool) -> float:
    """Return the weights and biases of values of a dimension, and of what takes them."""
    if layer.value is None:
        return 0
    given = layer.kv_heads * width * layer.value.with_offset(model).shape[-1]
    return given + (layer.heads * width * len(output_weight(model, layer)) if outputs else 0)


def _value_rows_left(original: nn.Module, small: nn.Module, fitted: Fitted, form: Form) -> float:
    layer, dims = fitted.plan.layer, fitted.plan.value_dims
    if dims is None:
        return 0
    if _narrow(small, layer, form):
        return _value_rows(original, layer, max(dims), True)
    whole = _value_rows(original, layer, layer.value_dim, True)
    unused = layer.value_dim - sum(dims) / len(dims)
    return whole - _value_rows(original, layer, unused, False)


def _scores_of(small: nn.Module, fitted: Fitted, form: Form) -> int:
    """Return the dimension that a layer's scores are computed with."""
    layer = fitted.plan.layer
    return max(fitted.plan.dims) if _narrow(small, layer, form) else layer.head_dim


def _mixed_size(small: nn.Module, fitted: Fitted, form: Form) -> int:
    """Return the dimension of the values that a layer mixes."""
    layer, dims = fitted.plan.layer, fitted.plan.value_dims
    return max(dims) if dims and _narrow(small, layer, form) else layer.value_dim


def _narrow(small: nn.Module, layer: Layer, form: Form) -> bool:
    return form == "small" or isinstance(small.get_submodule(layer.name), SmallHeadAttention)
