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

from exactformer.errors import InputError
from exactformer.experiments.models.translation.greedy import Translator
from exactformer.experiments.models.translation.subwords import PAD
from exactformer.learning.ensembles.models.positions import sinusoids

_Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class DecoderState:
    """Each layer's keys and values, of the source and of the tokens written so far."""

    place: int
    readable: Tensor
    source: tuple[_Pair, ...]
    past: tuple[_Pair | None, ...]


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
        return self._feed_forward(self._attend(tokens, readable, causal)[0])

    def _attend(
        self, tokens: Tensor, readable: Tensor | None, causal: bool, past: _Pair | None = None
    ) -> tuple[Tensor, _Pair]:
        """Attend to the tokens and to those ``past``; return keys and values of both, too."""
        normal = self.norm(tokens)
        keys, values = self.self_attention.keys_values(normal)
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        added = self.self_attention(normal, (keys, values), readable, causal)
        return tokens + self.drop(added), (keys, values)

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

    def decode(
        self, tokens: Tensor, past: _Pair | None, readable: Tensor, source: _Pair
    ) -> tuple[Tensor, _Pair]:
        """Return tokens after this layer, each of which attends to those before it.

        There may be several tokens, or one after those ``past``; the keys and values of all come back.
        """
        attended, pair = self._attend(tokens, None, past is None, past)
        normal = self.source_norm(attended)
        attended = attended + self.drop(self.source_attention(normal, source, readable))
        return self._feed_forward(attended), pair


class TransformerTranslator(Translator):
    """An encoder of the source, of ``tokens`` ids, and a decoder that attends to it."""

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

    def begin(self, source: Tensor) -> DecoderState:
        """Read the source."""
        readable = (source != PAD)[:, None, None]
        tokens = self._embed(source, self.source_places)
        for layer in self.encoder:
            tokens = layer(tokens, readable)
        memory = self.encoded(tokens)
        pairs = tuple(layer.read(memory) for layer in self._decoder())
        return DecoderState(0, readable, pairs, (None,) * len(pairs))

    def advance(self, words: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Return scores (batch, m, vocabulary) after each of m more ids (batch, m)."""
        if state.place and words.shape[1] > 1:
            raise InputError("after the first ids, a transformer advances by one id at a time.")
        place = state.place + words.shape[1]
        tokens = self._embed(words, self.target_places[state.place : place])
        past = []
        for layer, before, source in zip(self._decoder(), state.past, state.source, strict=True):
            tokens, pair = layer.decode(tokens, before, state.readable, source)
            past.append(pair)
        scores = functional.linear(self.decoded(tokens), self.words.weight)
        return scores, DecoderState(place, state.readable, state.source, tuple(past))

    def _decoder(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.decoder))

    def _embed(self, ids: Tensor, places: Tensor) -> Tensor:
        embedded: Tensor = self.drop(self.words(ids) * self.words.embedding_dim**0.5 + places)
        return embedded


def position_table(tokens: int, width: int) -> Tensor:
    """Return the positions of Vaswani et al., (tokens, width): sines, then cosines."""
    return sinusoids(tokens, width, dtype=torch.float32, interleaved=False)
