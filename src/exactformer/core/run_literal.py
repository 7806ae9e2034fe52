"""Attention and feed-forward layers as torch modules that carry out every matrix.

Proofs of rounding rest on the operations here and their order: heads are added to the stream one by
one, a hard maximum divides once, the units of a run of layers are added in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor, nn

from exactformer.core.integrity import remember
from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix

Record = Callable[[str, Tensor], None]
"""Is shown every intermediate with its name."""
Maker = Callable[[Matrix, str], Tensor]
"""Makes the tensor of a matrix, given also its name in the layer: ``heads.0.query``, ``w1``."""


def literal_layer(layer: Layer, tensor: Maker) -> LiteralAttention | LiteralFeedForward:
    """Return a layer, or a run of layers, as a module."""
    if isinstance(layer, Attention):
        return LiteralAttention(layer, tensor)
    return LiteralFeedForward(layer, tensor)


class LiteralAttention(nn.Module):
    """z_i + Σ_heads Σ_j weight_ij W_V z_j."""

    def __init__(self, layer: Attention, tensor: Maker) -> None:
        super().__init__()
        self.selection = layer.selection
        self.heads = nn.ModuleList(
            LiteralHead(head, lambda m, name, h=h: tensor(m, f"heads.{h}.{name}"))  # type: ignore[misc]
            for h, head in enumerate(layer.heads)
        )

    def forward(self, stream: Tensor, record: Record | None = None) -> Tensor:
        """Return the stream after this layer."""
        result = stream
        for h, head in enumerate(self.heads, start=1):
            prefix = f"head {h} " if len(self.heads) > 1 else ""
            result = result + head(stream, self.selection, record and prefixed(record, prefix))
        if record:
            record("after attention", result)
        return result


class LiteralHead(nn.Module):
    """One attention head; the value matrix includes the output projection, a query may have a bias."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None

    def __init__(self, head: Head, tensor: Maker) -> None:
        super().__init__()
        for name in ("query", "key", "value"):
            self.register_buffer(name, tensor(getattr(head, name), name))
        if isinstance(head, BiasedHead):
            self.register_buffer("bias", tensor(head.bias, "bias"))
        else:
            self.bias = None

    def forward(self, stream: Tensor, selection: Selection, record: Record | None = None) -> Tensor:
        """Return what this head adds to the stream."""
        query = stream @ self.query.T
        if self.bias is not None:
            query = query + self.bias.T
        scores = query @ (stream @ self.key.T).transpose(-1, -2)
        if record:
            record("scores", scores)
        return mixed(scores, stream @ self.value.T, selection, record)


def mixed(
    scores: Tensor, values: Tensor, selection: Selection, record: Record | None = None
) -> Tensor:
    """Return values mixed by the selected weights; equals under a hard maximum are averaged.

    Their sum is divided once, so that integers stay integers.
    """
    if selection.rule is Rule.HARD_MAX:
        chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
        count = chosen.sum(dim=-1, keepdim=True)
        if record:
            record("selection", chosen / count)
        return (chosen @ values) / count
    if selection.rule is Rule.ONE_HOT_MAX:
        largest, place = scores.max(dim=-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter(-1, place, largest)
    else:
        weights = torch.softmax(scores / float(selection.temperature), dim=-1)
    if record:
        record("selection", weights)
    return weights @ values


class LiteralFeedForward(nn.Module):
    """A feed-forward layer, or a run of them, one after another."""

    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor

    def __init__(self, layer: FeedForward, tensor: Maker) -> None:
        super().__init__()
        self.successive = layer.successive
        for name in ("w1", "b1", "w2", "b2"):
            self.register_buffer(name, tensor(getattr(layer, name), name))
        self.activation = (
            nn.ReLU()
            if layer.activation == RELU
            else nn.Identity()
            if layer.activation == IDENTITY
            else Piecewise(layer.activation, self.w1.dtype)
        )

    def forward(self, stream: Tensor, record: Record | None = None) -> Tensor:
        """Return the stream after the layer; ``record`` is shown it after every one of a run."""
        if self.successive is None:
            hidden = self.activation(stream @ self.w1.T + self.b1.T)
            stream = stream + hidden @ self.w2.T + self.b2.T
            if record:
                record("output", stream)
            return stream
        for m in range(0, len(self.w1), self.successive):
            own = slice(m, m + self.successive)
            hidden = self.activation(stream @ self.w1[own].T + self.b1[own].T)
            # In this order, on every processor: ReLUs that cancel leave nothing behind.
            terms = (hidden[..., k, None] * self.w2[:, m + k] for k in range(hidden.shape[-1]))
            stream = stream + reduce(Tensor.add, terms)
            if m == 0:
                stream = stream + self.b2.T
            if record:
                record("output", stream)
        return stream


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


def prefixed(record: Record, prefix: str) -> Record:
    """Return a record that puts a prefix before every name."""
    return lambda name, tensor: record(prefix + name, tensor)


remember(LiteralAttention, LiteralHead, LiteralFeedForward, Piecewise)
