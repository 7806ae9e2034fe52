"""A blueprint of a program as a stock transformer: embeddings, heads, ReLUs, a linear readout.

Heads of a layer have equally many rows, short ones filled with zeros. Proofs of rounding rest on the
operations here: queries, keys and values are one product each, softmax attention is PyTorch's own with
scale 1, a hard maximum adds up what it selects and divides once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.core.integrity import remember
from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.core.weights import dense
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer

Record = Callable[[str, Tensor], None]
"""Is shown every intermediate with its name."""


class ProgramAttention(nn.Module):
    """Heads side by side: ``W_Q``, ``W_K``, ``W_V`` and ``W_O``, all heads in one matrix each."""

    def __init__(
        self, layer: ProgramLayer, width: int, rule: Rule, dtype: torch.dtype, place: str
    ) -> None:
        super().__init__()
        heads = layer.heads
        self.heads, self.hard = len(heads), rule is Rule.HARD_MAX
        self.head_width = max(1, *(head.key.rows for head in heads))
        self.value_width = max(1, *(head.value.rows for head in heads))
        shapes = {
            "W_Q": ([h.query for h in heads], self.head_width),
            "W_K": ([h.key for h in heads], self.head_width),
            "W_V": ([h.value for h in heads], self.value_width),
        }
        for name, (matrices, rows) in shapes.items():
            weight = torch.zeros(self.heads, rows, width, dtype=dtype)
            for k, matrix in enumerate(matrices):
                weight[k, : matrix.rows] = _tensor(matrix, dtype, f"{place}.heads.{k}.{name}")
            setattr(self, name, _linear(weight.reshape(self.heads * rows, width)))
        output = torch.zeros(width, self.heads, self.value_width, dtype=dtype)
        for k, head in enumerate(heads):
            found = _tensor(head.output, dtype, f"{place}.heads.{k}.W_O")
            output[:, k, : head.output.columns] = found
        self.W_O = _linear(output.reshape(width, self.heads * self.value_width))

    def forward(self, stream: Tensor, allowed: Tensor, record: Record | None = None) -> Tensor:
        """Return what the heads add to a stream; ``allowed`` says who may attend to whom."""
        query, key, value = (self._split(part(stream)) for part in (self.W_Q, self.W_K, self.W_V))  # type: ignore[operator]
        if self.hard or record:
            scores = (query @ key.transpose(-1, -2)).masked_fill(~allowed, -torch.inf)
            weights = _weights(scores, self.hard)
            if record:
                record("scores", scores)
                record("pattern", weights)
        if self.hard:
            mixed = _hard_mixture(scores, value)
        else:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=allowed, scale=1.0
            )
        joined = mixed.transpose(-3, -2).flatten(-2)
        added: Tensor = self.W_O(joined)
        return added

    def _split(self, rows: Tensor) -> Tensor:
        return rows.reshape(*rows.shape[:-1], self.heads, -1).transpose(-3, -2)


class ProgramFeedForward(nn.Module):
    """ReLUs: what they read (``W_in`` with its bias) and what they write (``W_out``)."""

    def __init__(self, layer: ProgramLayer, dtype: torch.dtype, place: str) -> None:
        super().__init__()
        ff = layer.feed_forward
        bias = _tensor(ff.b1, dtype, f"{place}.b1")[:, 0]
        self.W_in = _linear(_tensor(ff.w1, dtype, f"{place}.w1"), bias)
        self.activation = nn.ReLU()
        self.W_out = _linear(_tensor(ff.w2, dtype, f"{place}.w2"))

    def forward(self, stream: Tensor) -> Tensor:
        """Return what the ReLUs add to a stream."""
        added: Tensor = self.W_out(self.activation(self.W_in(stream)))
        return added


class ProgramBlock(nn.Module):
    """One layer; attention or ReLUs are absent where it has none."""

    def __init__(
        self, layer: ProgramLayer, width: int, rule: Rule, dtype: torch.dtype, place: str
    ) -> None:
        super().__init__()
        self.attention = ProgramAttention(layer, width, rule, dtype, place) if layer.heads else None
        units = layer.feed_forward.w1.rows
        self.feed_forward = ProgramFeedForward(layer, dtype, place) if units else None

    def forward(self, stream: Tensor, allowed: Tensor, record: Record | None = None) -> Tensor:
        """Return the stream after the layer."""
        if self.attention is not None:
            stream = stream + self.attention(stream, allowed, record)
            if record:
                record("after attention", stream)
        if self.feed_forward is not None:
            stream = stream + self.feed_forward(stream)
        if record:
            record("output", stream)
        return stream


class ProgramStack(nn.Module):
    """Tokens by number, ``(batch, n)``, to readouts ``(batch, n, rows)``.

    Numbers below zero are padding, at the end only. A beginning token is put before every sequence
    where the blueprint has one; its own readout is left out.
    """

    def __init__(self, blueprint: ProgramBlueprint, dtype: torch.dtype) -> None:
        super().__init__()
        self.beginning, self.causal = blueprint.beginning, blueprint.causal
        rule, width = blueprint.selection.rule, blueprint.width
        self.embed = _embedding(_tensor(blueprint.tokens, dtype, "tokens"))
        self.positions = _embedding(_tensor(blueprint.positions, dtype, "positions"))
        self.layers = nn.ModuleList(
            ProgramBlock(layer, width, rule, dtype, f"layers.{k}")
            for k, layer in enumerate(blueprint.layers)
        )
        self.unembed = _linear(_tensor(blueprint.readout, dtype, "readout"))
        self.requires_grad_(False)

    def forward(self, ids: Tensor, record: Record | None = None) -> Tensor:
        """Return what is read out at every token; padding has zeros."""
        real = ids >= 0
        numbers = ids.clamp(min=0)
        if self.beginning:
            first = torch.full_like(ids[:, :1], self.embed.num_embeddings - 1)
            numbers = torch.cat([first, numbers], dim=1)
            real = torch.cat([torch.ones_like(real[:, :1]), real], dim=1)
        places = torch.arange(numbers.shape[1], device=ids.device)
        allowed = real[:, None, None, :].expand(-1, 1, numbers.shape[1], -1)
        if self.causal:
            allowed = allowed & (places[None, :] <= places[:, None])
        if not self.beginning:  # padding attends to itself, so that every row has a key
            allowed = allowed | torch.eye(len(places), dtype=torch.bool, device=ids.device)
        stream = self.embed(numbers) + self.positions(places)
        if record:
            record("embedding", stream)
        for k, layer in enumerate(self.layers):
            stream = stream.masked_fill(~real[:, :, None], 0.0)  # nothing is proven of padding
            stream = layer(stream, allowed, record and _prefixed(record, f"layer {k} "))
        output: Tensor = self.unembed(stream)[:, self.beginning :]
        return output.masked_fill(~real[:, self.beginning :, None], 0.0)


def _weights(scores: Tensor, hard: bool) -> Tensor:
    if not hard:
        return torch.softmax(scores, dim=-1)
    chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
    return chosen / chosen.sum(dim=-1, keepdim=True)


def _hard_mixture(scores: Tensor, values: Tensor) -> Tensor:
    chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
    return (chosen @ values) / chosen.sum(dim=-1, keepdim=True)


def _tensor(matrix: Matrix, dtype: torch.dtype, place: str) -> Tensor:
    return dense(matrix, dtype, lambda i, j: f"{place}[{i}, {j}]")


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    rows, columns = weight.shape
    with torch.device("meta"):
        layer = nn.Linear(columns, rows, bias=bias is not None)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.clone(), requires_grad=False)
    return layer


def _embedding(rows: Tensor) -> nn.Embedding:
    with torch.device("meta"):
        layer = nn.Embedding(*rows.shape)
    layer.weight = nn.Parameter(rows, requires_grad=False)
    return layer


def _prefixed(record: Record, prefix: str) -> Record:
    return lambda name, tensor: record(prefix + name, tensor)


remember(
    ProgramAttention,
    ProgramFeedForward,
    ProgramBlock,
    ProgramStack,
    nn.Linear,
    nn.Embedding,
    nn.ReLU,
)
__all__: Sequence[str] = ("ProgramStack",)
