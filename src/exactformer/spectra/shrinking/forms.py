"""Smaller heads in the model itself: from rows of zeros to matrices without them.

Shrinking writes the new projections over the old ones, with zeros from row r of each head on: the model
is unchanged in shape, and any family can run it. Here the zeros are taken out. Two forms exist:

``small``
    The module computes with a head of r for queries and keys, and keeps its values or has values of r
    too: fewer weights, fewer operations in the scores, and a smaller cache. Hugging Face models whose
    attention passes through the library's interface take it (values of another width, which the module
    then cuts into pieces of r, are put together again by :func:`small_heads`), if r divides the width
    of the values; so does ``torch.nn.MultiheadAttention``, replaced by :class:`SmallHeadAttention`.
``padded``
    The projection is smaller and its output is filled up with zeros: fewer weights, scores as before.
    Works wherever queries and keys come from linear layers, with a dimension for each head.

:func:`expanded` puts the zeros back: a model of the shapes it had, which computes the same.

In both the scale of the original head stays: 1/√m of the m it had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.spectra.scores import Projection
from exactformer.spectra.shrinking.attention import SmallHeadAttention, linear, register, unregister
from exactformer.spectra.shrinking.layers import Layer

Form = Literal["small", "padded"]
_Part = tuple[Projection, tuple[int, ...]]
"""A projection, and the dimensions of its heads."""
_SIZES = ("attention_head_size", "head_dim", "key_value_proj_dim")


@dataclass(frozen=True)
class Plan:
    """What becomes of one layer: the new dimension of each key head, and of values that shrink."""

    layer: Layer
    dims: tuple[int, ...]
    value_dims: tuple[int, ...] | None = None

    @property
    def uniform(self) -> bool:
        """Whether all heads of the layer have one dimension, and values that shrink have it too."""
        return len({*self.dims, *(self.value_dims or ())}) == 1

    def parts(self) -> list[_Part]:
        """Return the projections whose rows become fewer, with their dimensions."""
        parts = [(self.layer.query, self.dims), (self.layer.key, self.dims)]
        if self.layer.value is not None and self.value_dims is not None:
            parts.append((self.layer.value, self.value_dims))
        return parts

    def by_module(self) -> list[list[_Part]]:
        """Return the same, those of one module together."""
        parts = self.parts()
        modules = dict.fromkeys(projection.module for projection, _ in parts)
        return [[part for part in parts if part[0].module == module] for module in modules]


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
    if packed or layer.value is not None or possible_form(model, layer) == "padded":
        return every
    return [r for r in every if (layer.kv_heads * layer.head_dim) % r == 0]


def compact(model: nn.Module, plans: Sequence[Plan], form: Form) -> nn.Module:
    """Take the rows of zeros out of a model, in place; return it, or what replaces it whole."""
    for plan in plans:
        module = model.get_submodule(plan.layer.name)
        if isinstance(module, nn.MultiheadAttention):
            width = None if plan.value_dims is None else max(plan.value_dims)
            small = SmallHeadAttention.narrowed(module, max(plan.dims), width, plan.layer.scale)
            if not plan.layer.name:
                return _in_the_manner_of(module, small)
            _replace(model, plan.layer.name, small)
        elif form == "small":
            _narrow(model, module, plan)
        else:
            _pad(model, plan)
    for part in model.modules():
        if isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = False  # its short cut reads weights that are gone
    if form == "small":
        register(model)
    return model


def expanded(model: nn.Module, plans: Sequence[Plan], form: Form) -> nn.Module:
    """Undo :func:`compact` in place: zeros where rows and columns are gone, every shape as it was."""
    for plan in plans:
        layer = plan.layer
        module: Any = model.get_submodule(layer.name)
        if isinstance(module, SmallHeadAttention):
            _replace(model, layer.name, module.widened(layer.head_dim))
            continue
        for parts in plan.by_module():
            _replace(model, parts[0][0].module, _widened(model, parts))
        if form == "small":
            if layer.query.module == layer.key.module:
                module.split_size = layer.heads * layer.head_dim
            setattr(module, _size_name(module, plan.dims[0]) or "", layer.head_dim)
            if (output := layer.output) is not None:
                weight, bias = _contents(model, output)
                columns = _filled(weight.mT, _taken(plan), output.rows.numel()).mT
                _replace(model, output.module, linear(columns, bias, output.transposed))
    unregister(model)
    return model


def _narrow(model: nn.Module, module: Any, plan: Plan) -> None:
    layer, r = plan.layer, plan.dims[0]
    for one, kept, weight, bias in _rows_left(model, plan):
        rows = None if bias is None else bias[kept]
        _replace(model, one.module, linear(weight[kept], rows, one.transposed))
    width = r if plan.value_dims is not None else layer.head_dim
    if layer.query.module == layer.key.module:
        module.split_size = [layer.heads * r, layer.kv_heads * r, layer.kv_heads * width]
    if (output := layer.output) is not None:
        weight, bias = _contents(model, output)
        new = linear(weight[:, _taken(plan)], bias, output.transposed)
        _replace(model, output.module, new)
    setattr(module, _size_name(module, layer.head_dim) or "", r)


def _pad(model: nn.Module, plan: Plan) -> None:
    for one, kept, weight, bias in _rows_left(model, plan):
        rows = weight[kept].contiguous(), None if bias is None else bias[kept]
        _replace(model, one.module, PaddedProjection(*rows, kept, len(weight)))


def _rows_left(
    model: nn.Module, plan: Plan
) -> Iterator[tuple[Projection, Tensor, Tensor, Tensor | None]]:
    """Yield the linear layers whose rows become fewer: a projection, the rows kept, weight, bias."""
    for parts in plan.by_module():
        weight, bias = _contents(model, parts[0][0])
        yield parts[0][0], _kept(parts, len(weight)), weight, bias


def removed(model: nn.Module, plans: Sequence[Plan]) -> Iterator[Tensor]:
    """Yield what :func:`compact` takes out of a model of full shapes: all of it should be zero."""
    for plan in plans:
        for projection, dims in plan.parts():
            gone = torch.arange(projection.rows.shape[1]) >= torch.tensor(dims)[:, None]
            gone = gone.repeat_interleave(len(projection.rows) // len(dims), dim=0)
            yield projection.matrix(model)[gone]
            if (bias := projection.offset(model)) is not None:
                yield bias[gone]


def _contents(model: nn.Module, projection: Projection) -> tuple[Tensor, Tensor | None]:
    """Return the weight (out, in) and the bias of a linear layer, or of a padded one."""
    linear: Any = model.get_submodule(projection.module)
    transposed = projection.transposed and not isinstance(linear, PaddedProjection)
    weight = linear.weight.detach()
    bias = None if linear.bias is None else linear.bias.detach()
    return weight.mT if transposed else weight, bias


def _kept(parts: Sequence[_Part], width: int) -> Tensor:
    """Return the outputs of a linear layer that are not always zero, ascending."""
    kept = torch.ones(width, dtype=torch.bool)
    for projection, dims in parts:
        rows = projection.rows.cpu()
        own = torch.tensor(dims).repeat_interleave(len(rows) // len(dims))
        kept[rows[torch.arange(rows.shape[1]) >= own[:, None]]] = False
    return torch.nonzero(kept).flatten()


def _taken(plan: Plan) -> Tensor:
    """Return the inputs of the output projection that are not always zero, ascending."""
    assert plan.layer.output is not None
    assert plan.value_dims is not None
    return _kept([(plan.layer.output, plan.value_dims)], plan.layer.output.rows.numel())


def _widened(model: nn.Module, parts: Sequence[_Part]) -> nn.Module:
    """Return a linear layer with rows of zeros in the places of those that are gone."""
    weight, bias = _contents(model, parts[0][0])
    gone = sum(
        (len(p.rows) // len(dims)) * sum(p.rows.shape[1] - r for r in dims) for p, dims in parts
    )
    width = len(weight) + gone
    kept = _kept(parts, width)
    filled = None if bias is None else _filled(bias, kept, width)
    return linear(_filled(weight, kept, width), filled, parts[0][0].transposed)


def _filled(rows: Tensor, kept: Tensor, width: int) -> Tensor:
    """Return rows in their places among ``width``, and zeros elsewhere."""
    return rows.new_zeros(width, *rows.shape[1:]).index_copy(0, kept.to(rows.device), rows)


def _size_name(module: nn.Module, m: int) -> str | None:
    return next((name for name in _SIZES if getattr(module, name, None) == m), None)


def _replace(model: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, _in_the_manner_of(model.get_submodule(name), new))


def _in_the_manner_of(old: nn.Module, new: nn.Module) -> nn.Module:
    """Return a new module, frozen if the old one was, in evaluation mode."""
    return new.requires_grad_(any(p.requires_grad for p in old.parameters())).eval()
