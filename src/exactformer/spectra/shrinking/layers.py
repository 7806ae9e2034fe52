"""The layers of a model whose heads can be made smaller, and their scores beside those of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.extraction import Watch, watching
from exactformer.spectra.omissions import LeftOut
from exactformer.spectra.projections import is_linear, of_linear
from exactformer.spectra.scores import Projection, Scores
from exactformer.spectra.verification import verify

_LINEAR = 1e-4
"""Relative: how far queries may be from following their projection."""


@dataclass(frozen=True)
class Layer:
    """One attention module; ``calls`` are its turns in a pass, more than one where it is shared."""

    name: str
    calls: tuple[str, ...]
    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    query: Projection
    key: Projection
    value: Projection | None = None
    """Of values, where they are to become smaller; its rows are (key heads, m_v)."""
    output: Projection | None = None
    """Of what attention mixes; its rows are the inputs (heads, m_v) that belong to each head."""

    @property
    def share(self) -> int:
        """Query heads for one key head."""
        return self.heads // self.kv_heads

    @property
    def value_dim(self) -> int:
        """The m_v of values that are to become smaller."""
        return 0 if self.value is None else self.value.rows.shape[1]

    def matrices(self, model: nn.Module) -> tuple[Tensor, Tensor]:
        """Return [W b] of queries (heads, m, in + 1) and of keys, in float64."""
        return self.query.with_offset(model), self.key.with_offset(model)

    def project(self, model: nn.Module, left: Tensor, right: Tensor) -> None:
        """Write Aᵀ W_Q and Bᵀ W_K in place; rows beyond the new dimension become zero."""
        write_rows(self.query, model, left.repeat_interleave(self.share, dim=0))
        write_rows(self.key, model, right)


def layers_of(
    model: nn.Module, batch: Batch, values: bool = False
) -> tuple[tuple[Layer, ...], tuple[LeftOut, ...]]:
    """Return the layers in the order of execution, and what was left out.

    A layer that cannot be made smaller is refused by name; with ``values``, so is one whose values
    cannot.
    """
    found: dict[str, Layer] = {}
    takers = Takers(model)

    def look(scores: Scores) -> None:
        name = scores.name.partition("#")[0]
        if (known := found.get(name)) is not None:
            found[name] = replace(known, calls=(*known.calls, scores.name))
            return
        found[name] = _layer(name, scores)
        if values:
            found[name] = replace(found[name], value=scores.value_projection)
            takers.expect(name, scores)

    with watching(model) as watch, takers.hooked():
        watch.run(batch, look)
    verify(model, batch)
    if values:
        for name, layer in found.items():
            found[name] = replace(layer, output=takers.found.get(name))
            _refuse_values(model, found[name])
    _refuse_shared(found.values())
    for layer in found.values():
        if not (layer.query.plain and layer.key.plain):
            _refuse_unless_linear(model, batch, layer)
    return tuple(found.values()), watch.left_out


def paired(
    original: nn.Module, changed: nn.Module, inputs: Sequence[Batch], names: Sequence[str]
) -> Iterator[dict[str, tuple[Scores, Scores]]]:
    """Yield for every batch what both models attend with, in the calls of the given names."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(watching(model)) for model in (original, changed))
        for batch in inputs:
            was, now = _attended(first, batch, names), _attended(second, batch, names)
            yield {name: (was[name], now[name]) for name in was}


class _Enough(Exception):  # noqa: N818 - it is no error
    """All that was asked for has been seen; the rest of the model need not run."""


def _attended(watch: Watch, batch: Batch, names: Sequence[str]) -> dict[str, Scores]:
    seen: dict[str, Scores] = {}

    def note(scores: Scores) -> None:
        if scores.name in names:
            scores.check_finite()
            seen[scores.name] = scores
        if len(seen) == len(names):
            raise _Enough

    with suppress(_Enough):
        watch.run(batch, note)
    return seen


def _layer(name: str, scores: Scores) -> Layer:
    kind = type(scores.module).__name__
    query, key = scores.query_projection, scores.key_projection
    if query is None or key is None:
        raise ExtractionError(
            f"module {name!r} ({kind}): the linear layers that give its queries and keys were not "
            "found, so they cannot be made smaller"
        )
    if isinstance(scores.module, nn.MultiheadAttention) and (
        scores.module.bias_k is not None or scores.module.add_zero_attn
    ):
        raise ExtractionError(
            f"module {name!r} ({kind}) appends a key that is no token (bias_k or add_zero_attn): "
            "its scores are not free up to a constant, and its heads are not shrunk"
        )
    sizes = (scores.heads, scores.kv_heads, scores.head_dim)
    return Layer(name, (scores.name,), *sizes, scores.scale, query, key)


def _refuse_unless_linear(model: nn.Module, batch: Batch, layer: Layer) -> None:
    """Refuse a layer unless a change of its projections by A and B changes queries and keys so.

    A constant factor passes; rotary positions and norms do not.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (layer.kv_heads, layer.head_dim, layer.head_dim)
    left, right = (
        torch.eye(layer.head_dim).double()
        + torch.randn(shape, generator=generator, dtype=torch.float64) / layer.head_dim
        for _ in range(2)
    )
    changed = deepcopy(model)
    device = next(model.parameters()).device
    layer.project(changed, left.to(device), right.to(device))
    (pairs,) = paired(model, changed, [batch], layer.calls[:1])
    was, now = pairs[layer.calls[0]]
    queries = was.queries.double() @ left.to(device).repeat_interleave(layer.share, dim=0)
    off = max(
        float((x - y).norm() / y.norm().clamp(min=1e-30))
        for x, y in ((now.queries, queries), (now.keys, was.keys.double() @ right.to(device)))
    )
    if not off <= _LINEAR:
        kind = type(was.module).__name__
        raise ExtractionError(
            f"module {layer.name!r} ({kind}): rotary positions or a norm act between its projections "
            "and its scores, so that no smaller projection gives the same products. ef.shrink_cache "
            "makes the key-value cache of such a model smaller; ef.spectrum analyses its heads"
        )


def _refuse_values(model: nn.Module, layer: Layer) -> None:
    """Refuse a layer whose values do not go from one linear layer, mixed, into another."""
    kind = type(model.get_submodule(layer.name)).__name__
    if layer.value is None or not layer.value.plain or len(layer.value.rows) != layer.kv_heads:
        raise ExtractionError(
            f"module {layer.name!r} ({kind}): the linear layer that gives its values was not found, so "
            "they cannot be made smaller; leave values=False"
        )
    if layer.output is None or layer.heads * layer.value_dim != layer.output.rows.numel():
        raise ExtractionError(
            f"module {layer.name!r} ({kind}): no linear layer takes what its attention mixes as it is, "
            "so its values cannot be made smaller; leave values=False"
        )


class Takers:
    """The linear layers whose input is what an attention module has mixed."""

    def __init__(self, model: nn.Module) -> None:
        self._linear = {m: name for name, m in model.named_modules() if is_linear(m)}
        self._expected: dict[str, tuple[Tensor, Tensor]] = {}
        self.found: dict[str, Projection] = {}

    def expect(self, name: str, scores: Scores) -> None:
        """Look out for the layer that takes what a module has mixed; torch's own module is known."""
        width = 0 if scores.values is None else scores.values.shape[-1]
        rows = torch.arange(scores.heads * width).reshape(scores.heads, width)
        if isinstance(scores.module, nn.MultiheadAttention):
            inner = f"{name}.out_proj".removeprefix(".")
            self.found[name] = of_linear(inner, scores.module.out_proj, rows)
        elif scores.mixed is not None:
            self._expected[name] = scores.mixed.transpose(1, 2).flatten(2).nan_to_num(), rows

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Have all linear layers report their inputs."""
        with ExitStack() as stack:
            for module in self._linear:
                stack.enter_context(module.register_forward_pre_hook(self._look))
            yield

    def _look(self, module: nn.Module, args: Any) -> None:
        if not args or not isinstance(args[0], Tensor):
            return
        for name, (mixed, rows) in list(self._expected.items()):
            given = args[0]
            if given.shape == mixed.shape and torch.equal(given.nan_to_num(), mixed):
                self.found[name] = of_linear(self._linear[module], module, rows)
                del self._expected[name]


def _refuse_shared(layers: Any) -> None:
    owners: dict[str, str] = {}
    for layer in layers:
        projections = (layer.query, layer.key, layer.value, layer.output)
        for module in {p.module for p in projections if p is not None}:
            if module in owners:
                raise ExtractionError(
                    f"modules {owners[module]!r} and {layer.name!r} share the projection {module!r}: "
                    "heads that share weights in this way are not shrunk"
                )
            owners[module] = layer.name


def write_rows(projection: Projection, model: nn.Module, factor: Tensor) -> None:
    """Replace W by Fᵀ W and b by Fᵀ b, with F (heads, m, r); the rows from r on become zero."""
    weight, bias = projection.whole_weight(model), projection.whole_bias(model)
    rows = projection.rows.to(weight.device)
    _transform(weight, rows, factor)
    if bias is not None:
        _transform(bias[:, None], rows + projection.bias_start, factor)


def _transform(target: Tensor, rows: Tensor, factor: Tensor) -> None:
    values = target[rows]
    new = torch.zeros_like(values)
    new[:, : factor.shape[-1]] = (factor.mT @ values.double()).to(values.dtype)
    target[rows.flatten()] = new.flatten(0, 1)
