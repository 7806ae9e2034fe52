"""Translators, and greedy decoding: after each word the likeliest next, for all sentences at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.experiments.models.translation.subwords import END, PAD, START


class Translator(nn.Module, ABC):
    """A model that scores the next word, given the source and the words written so far."""

    @abstractmethod
    def begin(self, source: Tensor) -> Any:
        """Read source ids (batch, n)."""

    @abstractmethod
    def advance(self, words: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return scores (batch, m, vocabulary) after each of m more ids (batch, m)."""

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        """Return scores (batch, m, vocabulary) for the id after each of ``prefix``."""
        return self.advance(prefix, self.begin(source))[0]


@torch.no_grad()
def translate(model: Translator, source: Tensor, tokens: int) -> Tensor:
    """Return at most ``tokens`` ids for each row of ``source``, padded after ``END``."""
    state = model.begin(source)
    word = torch.full_like(source[:, 0], START)
    ended = torch.zeros_like(word, dtype=torch.bool)
    words = torch.full((len(source), tokens), PAD, dtype=source.dtype, device=source.device)
    for place in range(tokens):
        scores, state = model.advance(word[:, None], state)
        word = scores[:, 0].argmax(dim=1).masked_fill(ended, PAD)
        words[:, place] = word
        ended = ended | (word == END) | (word == PAD)
        if bool(ended.all()):
            break
    return words
