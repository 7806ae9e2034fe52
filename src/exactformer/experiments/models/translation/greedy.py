"""Greedy decoding: after each word the likeliest next, for all sentences at once."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from exactformer.experiments.models.translation.subwords import END, PAD, START


class Translator(Protocol):
    """A model that scores the next word, given the source and the words written so far."""

    def begin(self, source: Tensor) -> Any:
        """Read source ids (batch, n)."""

    def advance(self, word: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return scores (batch, vocabulary) after one more id (batch,)."""


@torch.no_grad()
def translate(model: Translator, source: Tensor, tokens: int) -> Tensor:
    """Return at most ``tokens`` ids for each row of ``source``, padded after ``END``."""
    state = model.begin(source)
    word = torch.full_like(source[:, 0], START)
    ended = torch.zeros_like(word, dtype=torch.bool)
    words = torch.full((len(source), tokens), PAD, dtype=source.dtype, device=source.device)
    for place in range(tokens):
        scores, state = model.advance(word, state)
        word = scores.argmax(dim=1).masked_fill(ended, PAD)
        words[:, place] = word
        ended = ended | (word == END) | (word == PAD)
        if bool(ended.all()):
            break
    return words
