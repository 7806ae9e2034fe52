"""The encoder-decoder of Vaswani et al. in small: sinusoidal positions, one embedding for all.

Layers normalise their input rather than their output, which learns without a long warm-up. In
translating, keys and values of the tokens written so far are kept, so that a step costs one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.translation.subwords import PAD
from exactformer.learning.ensembles.models.positions import sinusoids

_Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class DecoderState:
    """Each layer's keys and values, of the source and of the tokens written so far."""

    place: int
    readable: Tensor
    source: tuple[_Pair, ...]
    past: tuple[_Pair, ...]


class MultiHeadAttention(nn.Module):
    """Multi-head attention whose keys and values may have been computed before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def keys_values(self, tokens: Tensor) -> _Pair:
        """Return keys and values (batch, heads, n, width / heads) of ``tokens``."""
        keys, values = self.key_value(tokens).chunk(2, dim=2)
        return self._split(keys), self._split(values)

    def forward(
        self, tokens: Tensor, pair: _Pair, readable: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Let ``tokens`` attend to keys and values."""
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(tokens)), *pair, attn_mask=readable, is_causal=causal
        )
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, tokens: Tensor) -> Tensor:
        batch, count, _ = tokens.shape
        return tokens.view(batch, count, self.heads, -1).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Self-attention and two dense layers."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attention = MultiHeadAttention(width, heads)
        self.dense = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(
        self, tokens: Tensor, readable: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the tokens after this layer; they attend only to ``readable`` ones."""
        return self._feed_forward(self._attend(tokens, readable, causal))

    def _attend(self, tokens: Tensor, readable: Tensor | None, causal: bool) -> Tensor:
        normal = self.norm(tokens)
        pair = self.self_attention.keys_values(normal)
        attended: Tensor = tokens + self.drop(self.self_attention(normal, pair, readable, causal))
        return attended

    def _feed_forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = tokens + self.drop(self.dense(self.last_norm(tokens)))
        return result


class DecoderLayer(EncoderLayer):
    """A layer that also attends to a source, whose keys and values :meth:`read` computes."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__(width, heads, hidden, dropout)
        self.source_norm = nn.LayerNorm(width)
        self.source_attention = MultiHeadAttention(width, heads)

    def read(self, memory: Tensor) -> _Pair:
        """Return keys and values of the encoded source."""
        return self.source_attention.keys_values(memory)

    def decode(self, tokens: Tensor, readable: Tensor, source: _Pair) -> Tensor:
        """Return all tokens after this layer; each attends to those before it."""
        return self._feed_forward(
            self._attend_source(self._attend(tokens, None, True), readable, source)
        )

    def advance(
        self, token: Tensor, past: _Pair | None, readable: Tensor, source: _Pair
    ) -> tuple[Tensor, _Pair]:
        """Return one more token (batch, 1, width), and keys and values with its own added."""
        normal = self.norm(token)
        pair = self.self_attention.keys_values(normal)
        if past is not None:
            pair = (torch.cat([past[0], pair[0]], dim=2), torch.cat([past[1], pair[1]], dim=2))
        attended = token + self.drop(self.self_attention(normal, pair))
        return self._feed_forward(self._attend_source(attended, readable, source)), pair

    def _attend_source(self, tokens: Tensor, readable: Tensor, source: _Pair) -> Tensor:
        attended: Tensor = tokens + self.drop(
            self.source_attention(self.source_norm(tokens), source, readable)
        )
        return attended


class TransformerTranslator(nn.Module):
    """Source ids (batch, tokens) and target ids so far (batch, m) to scores of the next id."""

    source_places: Tensor
    target_places: Tensor

    def __init__(
        self,
        vocabulary: int,
        tokens: int,
        width: int,
        heads: int,
        hidden: int,
        layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        for name in ("source_places", "target_places"):
            self.register_buffer(name, position_table(tokens, width))
        self.encoder, self.decoder = (
            nn.ModuleList(kind(width, heads, hidden, dropout) for _ in range(layers))
            for kind in (EncoderLayer, DecoderLayer)
        )
        self.encoded, self.decoded = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        """Return scores (batch, m, vocabulary) for the id after each of ``prefix``."""
        memory, readable = self._encode(source)
        tokens = self._embed(prefix, self.target_places[: prefix.shape[1]])
        for layer in self._decoder():
            tokens = layer.decode(tokens, readable, layer.read(memory))
        return self._scores(tokens)

    def begin(self, source: Tensor) -> DecoderState:
        """Read the source."""
        memory, readable = self._encode(source)
        pairs = tuple(layer.read(memory) for layer in self._decoder())
        return DecoderState(0, readable, pairs, ())

    def advance(self, word: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Return scores (batch, vocabulary) after one more id (batch,)."""
        token = self._embed(word[:, None], self.target_places[state.place])
        past = []
        for k, layer in enumerate(self._decoder()):
            before = state.past[k] if state.past else None
            token, pair = layer.advance(token, before, state.readable, state.source[k])
            past.append(pair)
        after = DecoderState(state.place + 1, state.readable, state.source, tuple(past))
        return self._scores(token)[:, 0], after

    def _encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        readable = (source != PAD)[:, None, None]
        tokens = self._embed(source, self.source_places)
        for layer in self.encoder:
            tokens = layer(tokens, readable)
        return self.encoded(tokens), readable

    def _decoder(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.decoder))

    def _embed(self, ids: Tensor, places: Tensor) -> Tensor:
        embedded: Tensor = self.drop(self.words(ids) * self.words.embedding_dim**0.5 + places)
        return embedded

    def _scores(self, tokens: Tensor) -> Tensor:
        return functional.linear(self.decoded(tokens), self.words.weight)


def position_table(tokens: int, width: int) -> Tensor:
    """Return the positions of Vaswani et al., (tokens, width): sines, then cosines."""
    return sinusoids(tokens, width, dtype=torch.float32, interleaved=False)
