"""Smaller heads in the model itself: from rows of zeros to matrices without them.

Shrinking writes the new projections over the old ones, with zeros from row r of each head on: the model
is unchanged in shape, and any family can run it. Here the zeros are taken out. Two forms exist:

``small``
    The module computes with a head of r for queries and keys, and keeps its values: fewer weights,
    fewer operations in the scores, and a smaller key cache. Hugging Face models whose attention passes
    through the library's interface take it (values, which the module then cuts into pieces of r, are
    put together again by :func:`small_heads`), if r divides the width of the values; so does
    ``torch.nn.MultiheadAttention``, replaced by :class:`SmallHeadAttention`.
``padded``
    The projection is smaller and its output is filled up with zeros: fewer weights, scores as before.
    Works wherever queries and keys come from linear layers, with a dimension for each head.

In both the scale of the original head stays: 1/√m of the m it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.spectra.scores import Projection
from exactformer.spectra.shrinking.attention import SmallHeadAttention, register
from exactformer.spectra.shrinking.layers import Layer

Form = Literal["small", "padded"]
_SIZES = ("attention_head_size", "head_dim")


@dataclass(frozen=True)
class Plan:
    """What becomes of one layer: the new dimension of each key head."""

    layer: Layer
    dims: tuple[int, ...]

    @property
    def uniform(self) -> bool:
        """Whether all heads of the layer have one dimension."""
        return len(set(self.dims)) == 1


class PaddedProjection(nn.Module):
    """A linear layer of which some outputs are always zero, and have no weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None, kept: Tensor, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        places = torch.full((width,), len(kept), device=weight.device)
        places[kept] = torch.arange(len(kept), device=weight.device)
        self.register_buffer("places", places)

    def forward(self, x: Tensor) -> Tensor:
        """Return all outputs: those kept, and zeros in the places of the others."""
        kept = functional.linear(x, self.weight, self.bias)
        places: Tensor = self.get_buffer("places")
        return functional.pad(kept, (0, 1))[..., places]


def possible_form(model: nn.Module, layer: Layer) -> Form:
    """Return the form that a layer's module allows, before any dimension is chosen."""
    module: Any = model.get_submodule(layer.name)
    if isinstance(module, nn.MultiheadAttention):
        return "small"
    implementation = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if not isinstance(implementation, str) or not isinstance(
        getattr(module, "scaling", None), float
    ):
        return "padded"
    if _size_name(module, layer.head_dim) is None or abs(module.scaling - layer.scale) > 1e-12:
        return "padded"
    separate = layer.query.module != layer.key.module and not layer.query.transposed
    fused = (
        layer.query.transposed
        and getattr(module, "split_size", None) == layer.heads * layer.head_dim
    )
    return "small" if separate or fused else "padded"


def possible_dims(model: nn.Module, layer: Layer) -> list[int]:
    """Return the dimensions from 1 to m that the small form can have, or all if there is none."""
    every = list(range(1, layer.head_dim + 1))
    packed = isinstance(model.get_submodule(layer.name), nn.MultiheadAttention)
    if packed or possible_form(model, layer) == "padded":
        return every
    return [r for r in every if (layer.kv_heads * layer.head_dim) % r == 0]


def compact(model: nn.Module, plans: Sequence[Plan], form: Form) -> nn.Module:
    """Take the rows of zeros out of a model, in place; return it, or what replaces it whole."""
    for plan in plans:
        module = model.get_submodule(plan.layer.name)
        if isinstance(module, nn.MultiheadAttention):
            small = SmallHeadAttention.narrowed(module, max(plan.dims), plan.layer.scale)
            if not plan.layer.name:
                return _in_the_manner_of(module, small)
            _replace(model, plan.layer.name, small)
        elif form == "small":
            _narrow(model, module, plan)
        else:
            _pad(model, plan)
    if form == "small":
        register(model)
    return model


def _narrow(model: nn.Module, module: Any, plan: Plan) -> None:
    layer, r = plan.layer, plan.dims[0]
    for projections in _by_module(layer):
        linear: Any = model.get_submodule(projections[0].module)
        kept = _kept(projections, (r,) * layer.kv_heads, _width(linear, projections[0]))
        _replace(model, projections[0].module, _narrowed(linear, kept, projections[0].transposed))
    if layer.query.module == layer.key.module:
        module.split_size = [layer.heads * r, layer.kv_heads * r, layer.kv_heads * layer.head_dim]
    setattr(module, _size_name(module, layer.head_dim) or "", r)


def _pad(model: nn.Module, plan: Plan) -> None:
    for projections in _by_module(plan.layer):
        one = projections[0]
        linear: Any = model.get_submodule(one.module)
        kept = _kept(projections, plan.dims, _width(linear, one))
        weight = (linear.weight.mT if one.transposed else linear.weight).detach()[kept].contiguous()
        bias = None if linear.bias is None else linear.bias.detach()[kept]
        _replace(model, one.module, PaddedProjection(weight, bias, kept, _width(linear, one)))


def _by_module(layer: Layer) -> list[list[Projection]]:
    if layer.query.module == layer.key.module:
        return [[layer.query, layer.key]]
    return [[layer.query], [layer.key]]


def _kept(projections: list[Projection], dims: tuple[int, ...], width: int) -> Tensor:
    """Return the outputs of a linear layer that are not always zero, ascending."""
    kept = torch.ones(width, dtype=torch.bool)
    for projection in projections:
        rows = projection.rows.cpu()
        own = torch.tensor(dims).repeat_interleave(len(rows) // len(dims))
        kept[rows[torch.arange(rows.shape[1]) >= own[:, None]]] = False
    return torch.nonzero(kept).flatten()


def _width(linear: Any, projection: Projection) -> int:
    return int(linear.weight.shape[1 if projection.transposed else 0])


def _narrowed(linear: Any, kept: Tensor, transposed: bool) -> nn.Module:
    weight = linear.weight.detach()
    inputs = weight.shape[0 if transposed else 1]
    with torch.device(weight.device):
        if transposed:
            new = type(linear)(len(kept), inputs)
        else:
            new = nn.Linear(inputs, len(kept), bias=linear.bias is not None, dtype=weight.dtype)
    new.weight.data = (weight[:, kept] if transposed else weight[kept]).clone()
    if linear.bias is not None:
        new.bias.data = linear.bias.detach()[kept].clone()
    return new  # type: ignore[no-any-return]


def _size_name(module: nn.Module, m: int) -> str | None:
    return next((name for name in _SIZES if getattr(module, name, None) == m), None)


def _replace(model: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, _in_the_manner_of(model.get_submodule(name), new))


def _in_the_manner_of(old: nn.Module, new: nn.Module) -> nn.Module:
    """Return a new module, frozen if the old one was, in evaluation mode."""
    return new.requires_grad_(any(p.requires_grad for p in old.parameters())).eval()
