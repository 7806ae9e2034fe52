"""Text as rows of ids: byte-pair encoding, learnt from the text to be translated.

Bytes are the alphabet, so that every text has ids and comes back from them letter by letter. One
vocabulary serves both languages, as the tied embeddings of Vaswani et al. ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError, needs

PAD, START, END = range(3)
SMALLEST = 256 + END + 1


class Subwords:
    """A vocabulary of pieces of words; ``size`` of them, the three signs included."""

    def __init__(self, lines: Iterable[str], vocabulary: int) -> None:
        """Learn at most ``vocabulary`` pieces from ``lines``."""
        if vocabulary < SMALLEST:
            raise InputError(
                f"vocabulary is {vocabulary}; the bytes and three signs alone are {SMALLEST}."
            )
        with needs("reproduce", "byte-pair encoding"):
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        self._tokenizer: Any = Tokenizer(models.BPE())
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["[pad]", "[start]", "[end]"],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        self._tokenizer.train_from_iterator((f" {line}" for line in lines), trainer)
        self._tokenizer.encode_special_tokens = True  # a sign that is written out is text

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, lines: Sequence[str], tokens: int) -> NDArray[np.int64]:
        """Return rows of ``tokens`` ids: the line, ``END``, then ``PAD``; long lines are cut."""
        rows = np.full((len(lines), tokens), PAD, dtype=np.int64)
        spaced = [f" {line}" for line in lines]  # a word is the same at the beginning and later
        for row, line in zip(rows, self._tokenizer.encode_batch(spaced), strict=True):
            ids = [*line.ids[: tokens - 1], END]
            row[: len(ids)] = ids
        return rows

    def decode(self, rows: NDArray[np.int64]) -> list[str]:
        """Return each row's text, up to its first ``END`` or ``PAD``."""
        lines = []
        for row in rows:
            (ends,) = np.nonzero((row == END) | (row == PAD))
            ids = row[: ends[0]] if len(ends) else row
            lines.append(self._tokenizer.decode(ids.tolist()).removeprefix(" "))
        return lines
