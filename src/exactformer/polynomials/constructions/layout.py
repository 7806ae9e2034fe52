"""The token of the polynomial constructions: which dimension is what.

feature | position 1 … position n | power a … power q | one

The powers may be those of another basis: ``Chebyshev a`` … ``Chebyshev q``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from exactformer.core.domain import Domain
from exactformer.core.layers import Embedding
from exactformer.core.matrix import Matrix


@dataclass(frozen=True)
class TokenLayout:
    """Places of the named dimensions, for ``tokens`` tokens and the stored ``powers``."""

    tokens: int
    powers: tuple[int, ...]
    basis: str = "power"

    @property
    def feature(self) -> int:
        """Where t = ξ·x stands."""
        return 0

    def position(self, token: int) -> int:
        """Where token ``token`` (from 0) has its 1."""
        return 1 + token

    def power(self, s: int) -> int:
        """Where the power s is stored."""
        return 1 + self.tokens + self.powers.index(s)

    def source(self, s: int) -> int:
        """Where the power s can be read: the feature is its own first power unless stored."""
        return self.feature if s == 1 and s not in self.powers else self.power(s)

    @property
    def one(self) -> int:
        """Where every token has the constant 1."""
        return self.width - 1

    @property
    def width(self) -> int:
        """How many dimensions a token has."""
        return 2 + self.tokens + len(self.powers)

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions' names, in order."""
        positions = (f"position {i + 1}" for i in range(self.tokens))
        return ("feature", *positions, *(f"{self.basis} {s}" for s in self.powers), "one")

    def embedding(self, directions: Sequence[Sequence[Fraction]], domain: Domain) -> Embedding:
        """Return F·(x − c) with one direction per row, next to positions and ones."""
        features: dict[tuple[int, int], Fraction] = {}
        constant: dict[tuple[int, int], Fraction | int] = {}
        for i, row in enumerate(directions):
            features |= {(i, j): c for j, c in enumerate(row)}
            shift = sum((-c * domain.offset(j) for j, c in enumerate(row)), Fraction(0))
            constant |= {(i, self.feature): shift, (i, self.position(i)): 1, (i, self.one): 1}
        return Embedding(
            Matrix.of(self.tokens, len(directions[0]), features),
            self.feature,
            Matrix.of(self.tokens, self.width, constant),
        )

    def selector(self, dimension: int, position_weight: Fraction) -> Matrix:
        """Return the query or key matrix (n+1) × w: one dimension, then the weighted position."""
        entries = {(1 + i, self.position(i)): position_weight for i in range(self.tokens)}
        return Matrix.of(self.tokens + 1, self.width, entries | {(0, dimension): Fraction(1)})

    def readout(self, columns: Mapping[int, Sequence[Fraction]]) -> Matrix:
        """Return β, n × w; ``columns[s]`` weighs power s."""
        entries = {
            (i, self.source(s)): value
            for s, values in columns.items()
            for i, value in enumerate(values)
        }
        return Matrix.of(self.tokens, self.width, entries)
