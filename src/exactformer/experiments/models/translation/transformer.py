"""The encoder-decoder of Vaswani et al. in small: sinusoidal positions, one embedding for all.

Layers normalise their input rather than their output, which learns without a long warm-up. In
translating, keys and values of what was already said are kept, so that a step costs one token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.translation.subwords import PAD

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Said:
    """Where a translation stands: each layer's keys and values of the source and of what was said."""

    place: int
    readable: Tensor
    source: tuple[Pair, ...]
    past: tuple[Pair, ...]


class Attention(nn.Module):
    """Multi-head attention whose keys and values may have been computed before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def keys_values(self, tokens: Tensor) -> Pair:
        """Return keys and values (batch, heads, n, width / heads) of ``tokens``."""
        keys, values = self.key_value(tokens).chunk(2, dim=2)
        return self._split(keys), self._split(values)

    def forward(
        self, tokens: Tensor, pair: Pair, readable: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Let ``tokens`` look at keys and values."""
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(tokens)), *pair, attn_mask=readable, is_causal=causal
        )
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, tokens: Tensor) -> Tensor:
        batch, count, _ = tokens.shape
        return tokens.view(batch, count, self.heads, -1).transpose(1, 2)


class Layer(nn.Module):
    """Self-attention and two dense layers: a layer of an encoder."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.own = Attention(width, heads)
        self.dense = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(
        self, tokens: Tensor, readable: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the tokens after this layer; those not ``readable`` are not looked at."""
        return self._think(self._look(tokens, readable, causal))

    def _look(self, tokens: Tensor, readable: Tensor | None, causal: bool) -> Tensor:
        normal = self.norm(tokens)
        pair = self.own.keys_values(normal)
        looked: Tensor = tokens + self.drop(self.own(normal, pair, readable, causal))
        return looked

    def _think(self, tokens: Tensor) -> Tensor:
        result: Tensor = tokens + self.drop(self.dense(self.last_norm(tokens)))
        return result


class DecoderLayer(Layer):
    """A layer that also looks at a source, whose keys and values :meth:`read` computes."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__(width, heads, hidden, dropout)
        self.source_norm = nn.LayerNorm(width)
        self.source = Attention(width, heads)

    def read(self, memory: Tensor) -> Pair:
        """Return keys and values of the encoded source."""
        return self.source.keys_values(memory)

    def say(self, tokens: Tensor, readable: Tensor, source: Pair) -> Tensor:
        """Return all tokens after this layer; each looks at those before it."""
        return self._think(self._ask(self._look(tokens, None, True), readable, source))

    def advance(
        self, token: Tensor, past: Pair | None, readable: Tensor, source: Pair
    ) -> tuple[Tensor, Pair]:
        """Return one more token (batch, 1, width), and keys and values with its own added."""
        normal = self.norm(token)
        pair = self.own.keys_values(normal)
        if past is not None:
            pair = (torch.cat([past[0], pair[0]], dim=2), torch.cat([past[1], pair[1]], dim=2))
        looked = token + self.drop(self.own(normal, pair))
        return self._think(self._ask(looked, readable, source)), pair

    def _ask(self, tokens: Tensor, readable: Tensor, source: Pair) -> Tensor:
        asked: Tensor = tokens + self.drop(self.source(self.source_norm(tokens), source, readable))
        return asked


class TransformerTranslator(nn.Module):
    """Source ids (batch, tokens) and what was said (batch, m) to scores of what comes next."""

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
            self.register_buffer(name, sinusoids(tokens, width))
        self.encoder, self.decoder = (
            nn.ModuleList(kind(width, heads, hidden, dropout) for _ in range(layers))
            for kind in (Layer, DecoderLayer)
        )
        self.encoded, self.decoded = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        """Return scores (batch, m, vocabulary) for what follows each beginning of ``said``."""
        memory, readable = self._encode(source)
        tokens = self._embed(said, self.target_places[: said.shape[1]])
        for layer in self._decoder():
            tokens = layer.say(tokens, readable, layer.read(memory))
        return self._scores(tokens)

    def begin(self, source: Tensor) -> Said:
        """Read the source."""
        memory, readable = self._encode(source)
        pairs = tuple(layer.read(memory) for layer in self._decoder())
        return Said(0, readable, pairs, ())

    def advance(self, said: Tensor, state: Said) -> tuple[Tensor, Said]:
        """Return scores (batch, vocabulary) after one more id (batch,) was said."""
        token = self._embed(said[:, None], self.target_places[state.place])
        past = []
        for k, layer in enumerate(self._decoder()):
            before = state.past[k] if state.past else None
            token, pair = layer.advance(token, before, state.readable, state.source[k])
            past.append(pair)
        after = Said(state.place + 1, state.readable, state.source, tuple(past))
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


def sinusoids(tokens: int, width: int) -> Tensor:
    """Return the positions of Vaswani et al., (tokens, width): sines, then cosines."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(tokens)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]
