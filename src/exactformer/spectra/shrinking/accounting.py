"""The report of smaller heads: what they save by count, what they change by measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    values = [f.values for f in fitted if f.values is not None]
    both = (
        [_Sizes.before(layer) for layer in layers],
        [_Sizes.after(small, f, form) for f in fitted],
    )

    def saving(count: Callable[[_Sizes], int]) -> Saving:
        return Saving(*(sum(map(count, sizes)) for sizes in both))

    return ShrinkReport(
        model=type(original).__name__,
        method=method,
        form=form,
        heads=tuple(h for f in fitted for h in _heads(f, changes[f.plan.layer.name])),
        parameters=Saving(_count(original), _count(small)),
        projection_parameters=saving(lambda sizes: sizes.weights(original)),
        key_cache=saving(lambda sizes: sizes.layer.kv_heads * sizes.scored * item_bytes),
        value_cache=saving(lambda sizes: sizes.layer.kv_heads * sizes.mixed * item_bytes)
        if values
        else None,
        score_flops=saving(lambda sizes: 2 * sizes.layer.heads * sizes.scored),
        predicted_score_error=_relative(error, total),
        predicted_value_error=_relative(sum(v.error for v in values), sum(v.total for v in values))
        if values
        else None,
        fitted=known,
        held_out=other,
        metric=None if metric is None else Saving(float(metric(original)), float(metric(small))),
        notes=tuple(n for n in (division.note, _PADDED if form == "padded" else "") if n),
    )


@dataclass(frozen=True)
class _Sizes:
    """The dimensions of one layer: of the heads that its projections give, and of its products."""

    layer: Layer
    keys: Sequence[int]
    values: Sequence[int]
    scored: int
    """The dimension that scores are computed with."""
    mixed: int
    """The dimension of the values that attention mixes."""

    @classmethod
    def before(cls, layer: Layer) -> _Sizes:
        keys, values = layer.head_dim, layer.value_dim
        return cls(layer, [keys] * layer.kv_heads, [values] * layer.kv_heads, keys, values)

    @classmethod
    def after(cls, small: nn.Module, fitted: Fitted, form: Form) -> _Sizes:
        plan, layer = fitted.plan, fitted.plan.layer
        keys, values = plan.dims, plan.value_dims or [layer.value_dim] * layer.kv_heads
        attention = small.get_submodule(layer.name)
        narrow = form == "small" or isinstance(attention, SmallHeadAttention)
        products = (max(keys), max(values)) if narrow else (layer.head_dim, layer.value_dim)
        return cls(layer, keys, values, *products)

    def weights(self, model: nn.Module) -> int:
        """Count weights and biases of queries and keys; of values and outputs, where values shrink."""
        layer = self.layer
        queries, keys = layer.matrices(model)
        total = sum(self.keys) * (layer.share * queries.shape[-1] + keys.shape[-1])
        if layer.value is not None:
            total += sum(self.values) * layer.value.with_offset(model).shape[-1]
            total += layer.heads * self.mixed * len(output_weight(model, layer))
        return total


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
    plan, layer = fitted.plan, fitted.plan.layer
    return [
        HeadChange(
            layer=layer.name,
            head=head,
            head_dim=layer.head_dim,
            new_head_dim=plan.dims[head // layer.share],
            new_value_dim=None if plan.value_dims is None else plan.value_dims[head // layer.share],
            energy=float(fitted.energy[head // layer.share]),
            score_error=_relative(float(change.error[head]), float(change.total[head])),
            attention_change=float(change.attention[head]),
        )
        for head in range(layer.heads)
    ]


def _relative(error: float, total: float) -> float:
    return (error / total) ** 0.5 if total > 0 else 0.0


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
