"""The named rows of a stream, and the matrices that read, write and mix them.

>>> rows = Rows("feature", "power 2", "power 3", "one")
>>> rows["one"], rows.every("power")
(3, ('power 2', 'power 3'))
>>> rows.reading({"feature": 1}, {"power 2": 2, "one": -1}).shape
(2, 4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from exactformer.core.matrix import Matrix

Weights = Mapping[str, Fraction | int]
"""Numbers by the name of their row; rows that are not named have 0."""


class Rows(Mapping[str, int]):
    """Names of rows in order, each with its place."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._places = {name: place for place, name in enumerate(names)}

    def __getitem__(self, name: str) -> int:
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def every(self, word: str) -> tuple[str, ...]:
        """Return the names that are a word and a number: ``position 1``, ``position 2``, …"""
        return tuple(name for name in self.names if name.startswith(f"{word} "))

    def reading(self, *units: Weights) -> Matrix:
        """Return the matrix whose row m reads the stream with the weights of unit m."""
        places = {(m, self[r]): v for m, unit in enumerate(units) for r, v in unit.items()}
        return Matrix.of(len(units), len(self), places)

    def writing(self, *units: Weights) -> Matrix:
        """Return the matrix whose column m writes to the stream with the weights of unit m."""
        places = {(self[r], m): v for m, unit in enumerate(units) for r, v in unit.items()}
        return Matrix.of(len(self), len(units), places)

    def mixing(self, weights: Mapping[str, Weights]) -> Matrix:
        """Return the square matrix that gives every row named the weighted sum of others."""
        places = {(self[to], self[r]): v for to, line in weights.items() for r, v in line.items()}
        return Matrix.of(len(self), len(self), places)
