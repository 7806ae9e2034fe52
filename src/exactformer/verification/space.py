"""All inputs of a finite model, by number: sequences over a vocabulary, of one length or several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from exactformer.errors import InputError

_MOST = 2**62
"""Inputs of one length are numbered in 64 bits."""


@dataclass(frozen=True)
class Space:
    """Sequences of ids below ``size``, of each length in turn, in lexicographic order."""

    vocabulary: tuple[Any, ...]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Iterable[Any], length: int | Iterable[int]) -> Space:
        """Return the space of what a user hands in."""
        tokens = tuple(vocabulary)
        lengths = (length,) if isinstance(length, int) else tuple(length)
        if not tokens:
            raise InputError("the vocabulary is empty; give the tokens in the order of their ids")
        try:
            distinct = len(set(tokens))
        except TypeError:
            raise InputError("tokens must be hashable: numbers, texts or tuples of them") from None
        if distinct < len(tokens):
            raise InputError("the vocabulary has a token twice; each token has one id")
        if not lengths or any(type(n) is not int or n < 1 for n in lengths):
            raise InputError(f"length is {length!r}; it must be a number from 1 on, or several")
        if len(set(lengths)) < len(lengths):
            raise InputError(f"length has a number twice: {list(lengths)}")
        return cls(tokens, tuple(sorted(lengths)))

    def count(self, length: int) -> int:
        """Return how many inputs have a length."""
        return int(len(self.vocabulary) ** length)

    @property
    def total(self) -> int:
        """How many inputs there are."""
        return sum(map(self.count, self.lengths))

    def locate(self, number: int) -> tuple[int, int]:
        """Return the length of an input, and its number among those of this length."""
        for length in self.lengths:
            if number < self.count(length):
                return length, number
            number -= self.count(length)
        raise IndexError(number)

    def start(self, length: int) -> int:
        """Return the number of the first input of a length."""
        return sum(self.count(n) for n in self.lengths if n < length)

    def ids(self, length: int, start: int, stop: int, device: torch.device) -> Tensor:
        """Return inputs of one length as rows of ids."""
        return self.rows(torch.arange(start, stop, device=device), length)

    def rows(self, numbers: Tensor, length: int) -> Tensor:
        """Return the inputs of one length with these numbers."""
        size = len(self.vocabulary)
        columns = [(numbers // size ** (length - 1 - k)) % size for k in range(length)]
        return torch.stack(columns, 1)

    def fits(self) -> bool:
        """Whether every length has few enough inputs to be numbered."""
        return all(self.count(n) <= _MOST for n in self.lengths)

    def tokens(self, ids: Sequence[int]) -> tuple[Any, ...]:
        """Return tokens for ids."""
        return tuple(self.vocabulary[k] for k in ids)
