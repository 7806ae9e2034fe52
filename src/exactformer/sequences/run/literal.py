"""A sequence blueprint as a ``torch.nn.Module`` that carries out every layer, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce

import torch
from torch import Tensor, nn

from exactformer.core.attention import select
from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    BiasedHead,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.core.weights import dense
from exactformer.sequences.blueprint import SequenceBlueprint

Record = Callable[[str, Tensor], None]


class LiteralSequence(nn.Module):
    """Sequences ``(batch, n, d)`` to ``(batch, n, d)`` through all layers of the theorem."""

    features: Tensor
    constant: Tensor
    positions: Tensor
    readout: Tensor
    code: Tensor

    def __init__(self, blueprint: SequenceBlueprint, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        known: dict[Fraction, float] = {}

        def tensor(matrix: Matrix, place: str) -> Tensor:
            return dense(matrix, dtype, lambda i, j: f"{place}, row {i + 1}, column {j + 1}", known)

        embedding = blueprint.embedding
        for name in ("features", "constant", "positions"):
            self.register_buffer(name, tensor(getattr(embedding, name), f"embedding {name}"))
        self.register_buffer("readout", tensor(blueprint.readout, "readout"))
        self.register_buffer("code", tensor(blueprint.code, "code"))
        self.names = tuple(stage.name for stage in blueprint.stages for _ in stage.parts)
        self.parts = nn.ModuleList(
            _module(part, stage.name, tensor) for stage in blueprint.stages for part in stage.parts
        )

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Run; ``record(name, stream)`` is shown the stream after every layer, ``(batch, n, w)``."""
        keep = record or _ignore
        with full_precision(x.device):
            stream = x @ self.features.T + self.constant.T + self.positions.T
            keep("embedding", stream)
            number = dict.fromkeys(self.names, 0)
            for stage, part in zip(self.names, self.parts, strict=True):
                for after in part(stream):
                    stream = after
                    number[stage] += 1
                    keep(f"{stage} {number[stage]}", stream)
            return stream @ self.readout.T


Maker = Callable[[Matrix, str], Tensor]


def _module(part: Layer, place: str, tensor: Maker) -> nn.Module:
    if isinstance(part, Attention):
        return LiteralAttention(part, place, tensor)
    return LiteralUnits(part, place, tensor)


class LiteralAttention(nn.Module):
    """z_i + Σ_heads Σ_j weight_ij W_V z_j; queries may have a bias."""

    def __init__(self, layer: Attention, place: str, tensor: Maker) -> None:
        super().__init__()
        self.selection = layer.selection
        self.heads = len(layer.heads)
        for h, head in enumerate(layer.heads):
            bias = head.bias if isinstance(head, BiasedHead) else Matrix(head.query.rows, 1, {})
            parts = {"query": head.query, "key": head.key, "value": head.value, "bias": bias}
            for name, matrix in parts.items():
                self.register_buffer(
                    f"{name}_{h}", tensor(matrix, f"{place}, head {h + 1}, {name}")
                )

    def forward(self, stream: Tensor) -> Iterator[Tensor]:
        """Yield the stream after this layer."""
        result = stream
        for h in range(self.heads):
            query, key, value, bias = (
                self.get_buffer(f"{name}_{h}") for name in ("query", "key", "value", "bias")
            )
            scores = (stream @ query.T + bias.T) @ (stream @ key.T).transpose(-1, -2)
            result = result + mixed(scores, stream @ value.T, self.selection)
        yield result


def mixed(scores: Tensor, values: Tensor, selection: Selection) -> Tensor:
    """Return values mixed by the selected weights; equals under a hard maximum are averaged.

    Their sum is divided once, so that integers stay integers.
    """
    if selection.rule is Rule.HARD_MAX:
        chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
        return (chosen @ values) / chosen.sum(dim=-1, keepdim=True)
    return select(scores, selection) @ values


class LiteralUnits(nn.Module):
    """A feed-forward layer, or its units one after another, so many at a time."""

    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor

    def __init__(self, layer: FeedForward, place: str, tensor: Maker) -> None:
        super().__init__()
        self.hidden = layer.successive
        for name in ("w1", "b1", "w2", "b2"):
            self.register_buffer(name, tensor(getattr(layer, name), f"{place}, {name}"))
        self.activation = (
            nn.ReLU()
            if layer.activation == RELU
            else nn.Identity()
            if layer.activation == IDENTITY
            else Piecewise(layer.activation, self.w1.dtype)
        )

    def forward(self, stream: Tensor) -> Iterator[Tensor]:
        """Yield the stream after this layer, or after each of those it stands for."""
        if self.hidden is None:
            hidden = self.activation(stream @ self.w1.T + self.b1.T)
            yield stream + hidden @ self.w2.T + self.b2.T
            return
        for m in range(0, len(self.w1), self.hidden):
            own = slice(m, m + self.hidden)
            hidden = self.activation(stream @ self.w1[own].T + self.b1[own].T)
            # In this order, on every processor: ReLUs that cancel leave nothing behind.
            terms = (hidden[..., k, None] * self.w2[:, m + k] for k in range(hidden.shape[-1]))
            stream = stream + reduce(Tensor.add, terms)
            if m == 0:
                stream = stream + self.b2.T
            yield stream


class Piecewise(nn.Module):
    """A piecewise-linear function, continuous from the right."""

    breaks: Tensor
    slopes: Tensor
    intercepts: Tensor

    def __init__(self, function: PiecewiseLinear, dtype: torch.dtype) -> None:
        super().__init__()
        slopes, intercepts = zip(*function.pieces, strict=True)
        for name, numbers in (
            ("breaks", function.breaks),
            ("slopes", slopes),
            ("intercepts", intercepts),
        ):
            self.register_buffer(name, torch.tensor([float(v) for v in numbers], dtype=dtype))

    def forward(self, t: Tensor) -> Tensor:
        """Return φ(t)."""
        piece = torch.bucketize(t, self.breaks, right=True)
        return self.slopes[piece] * t + self.intercepts[piece]


def _ignore(name: str, stream: Tensor) -> None:
    pass
