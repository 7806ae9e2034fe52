"""A translator of LSTMs without attention: one code for the sentence is all that is passed on.

With attention an LSTM reads its source in any order, as a transformer does, and the contrast would be
hidden. The encoder skips padding: in the altered order it reads the rest of the sentence, then its
first ten tokens. Its last output is the code from which the decoder's states start.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.translation.greedy import Translator
from exactformer.experiments.models.translation.subwords import PAD

_States = tuple[tuple[Tensor, Tensor], ...]


class Stack(nn.Module):
    """LSTMs on top of each other, with dropout between."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, states: _States | None = None) -> tuple[Tensor, _States]:
        """Return outputs (batch, n, width) and each layer's last state, in the weights' precision."""
        after = []
        with torch.autocast(tokens.device.type, enabled=False):
            tokens = tokens.to(next(self.parameters()))
            for k, layer in enumerate(self.layers):
                given, state = layer(self.drop(tokens), None if states is None else states[k])
                tokens = given if k == 0 else tokens + given
                after.append(state)
        return tokens, tuple(after)


class RecurrentTranslator(Translator):
    """A stack that reads the source, and one that writes from the code it leaves."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.encoder = Stack(width, layers, dropout)
        self.decoder = Stack(width, layers, dropout)
        self.start = nn.Linear(width, 2 * layers * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def begin(self, source: Tensor) -> _States:
        """Read the source, without its padding."""
        source, lengths = without_padding(source)
        tokens, _ = self.encoder(self._embed(source))
        last = (lengths - 1)[:, None, None].expand(-1, 1, tokens.shape[2])
        code = self.start(self.drop(tokens.gather(1, last).transpose(0, 1)))
        parts = code.to(tokens).chunk(2 * len(self.decoder.layers), dim=2)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return tuple((hidden.tanh().contiguous(), kept.contiguous()) for hidden, kept in pairs)

    def advance(self, words: Tensor, state: _States) -> tuple[Tensor, _States]:
        """Return scores (batch, m, vocabulary) after each of m more ids (batch, m)."""
        tokens, after = self.decoder(self._embed(words), state)
        return functional.linear(self.out(self.drop(tokens)), self.words.weight), after

    def _embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.words(ids) * self.words.embedding_dim**0.5
        return embedded


def without_padding(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows with all padding moved behind the rest, whose order is kept, and lengths."""
    padding = ids == PAD
    order = padding.long().argsort(dim=1, stable=True)
    return ids.gather(1, order), torch.sum(~padding, dim=1)
