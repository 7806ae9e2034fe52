"""Grids of the cube and sequence maps given by a table on them.

The support's side is cut into N cells; a column falls into one of D = N^d, numbered by
id = q_1 + N q_2 + … + N^(d−1) q_d for its cells q_r ∈ {0, …, N − 1}. A map on n columns is then a
table over *classes*: the tuple of the columns' ids, sorted where the map is permutation equivariant
(all orders of the columns are one class), in order of position where it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb

from exactformer.errors import InputError

Class = tuple[int, ...]
Columns = tuple[tuple[Fraction, ...], ...]
"""n columns of d values, in the order of a class."""


@dataclass(frozen=True)
class Grid:
    """The classes of n columns of d coordinates, N cells a side."""

    tokens: int
    dim: int
    cells: int
    positional: bool = False
    repeats: bool = False
    """Whether equal columns are kept (without positions; with them all columns differ)."""
    support: tuple[Fraction, Fraction] = (Fraction(0), Fraction(1))

    @property
    def points(self) -> int:
        """D, the cells a column may fall into."""
        return int(self.cells**self.dim)

    @property
    def size(self) -> int:
        """How many classes there are."""
        n, D = self.tokens, self.points
        if self.positional:
            return int(D**n)
        return comb(D + n - 1, n) if self.repeats else comb(D, n)

    def size_up_to(self, most: int) -> int | None:
        """Return how many classes there are, or None where there are more than ``most``.

        Ids are int64, so a column with more cells than that counts as more.

        >>> Grid(2, 1, 4).size_up_to(6), Grid(2, 2**70, 4).size_up_to(6)
        (6, None)
        """
        n, D = self.tokens, _power(self.cells, self.dim, 2**63)
        if D is None:
            return None
        if self.positional:
            return _power(D, n, most)
        return _choose(D + n - 1 if self.repeats else D, n, most)

    @property
    def keys(self) -> int:
        """How many tokens in context there are: each needs a key."""
        n, D = self.tokens, self.points
        if self.repeats and not self.positional:
            return D * comb(D + n - 2, n - 1)
        return n * self.size

    def classes(self) -> Iterator[Class]:
        """Yield every class."""
        ids = range(self.points)
        if self.positional:
            return product(ids, repeat=self.tokens)
        choose = combinations_with_replacement if self.repeats else combinations
        return choose(ids, self.tokens)

    def coordinates(self, column: int) -> tuple[int, ...]:
        """Return the cells q_1, …, q_d of an id."""
        digits = []
        for _ in range(self.dim):
            column, digit = divmod(column, self.cells)
            digits.append(digit)
        return tuple(digits)

    def centre(self, column: int) -> tuple[Fraction, ...]:
        """Return the middle of a cell, in the coordinates of the input."""
        return self.place(column, Fraction(1, 2))

    def corner(self, column: int) -> tuple[Fraction, ...]:
        """Return the lower corner of a cell, in the coordinates of the input."""
        return self.place(column, Fraction(0))

    def place(self, column: int, offset: Fraction) -> tuple[Fraction, ...]:
        """Return a point of a cell; ``offset`` is the way from its lower to its upper edges."""
        low, high = self.support
        unit = (high - low) / self.cells
        return tuple(low + unit * (q + offset) for q in self.coordinates(column))

    def check(self, ids: Class) -> Class:
        """Return a class as it is written here; raise where it is none."""
        plain = tuple(int(k) for k in ids)
        wrong = len(plain) != self.tokens or any(not 0 <= k < self.points for k in plain)
        if not self.positional:
            wrong = wrong or list(plain) != sorted(plain)
            wrong = wrong or (not self.repeats and len(set(plain)) < len(plain))
        if wrong:
            order = "by position" if self.positional else "in ascending order"
            kind = "" if self.positional or self.repeats else "different "
            raise InputError(
                f"{ids} is no class of this grid: {self.tokens} {kind}ids from 0 to "
                f"{self.points - 1}, {order}"
            )
        return plain


@dataclass(frozen=True)
class GridTable:
    """The values of a sequence map on every class of a grid."""

    grid: Grid
    values: Mapping[Class, Columns]

    @classmethod
    def of(cls, grid: Grid, values: Mapping[Class, Iterable[Iterable[object]]]) -> GridTable:
        """Build from {class: (tokens, dim) array}; classes left out are sent to 0."""
        table = dict.fromkeys(grid.classes(), _zeros(grid))
        for ids, rows in values.items():
            table[grid.check(ids)] = _columns(rows, grid)
        return cls(grid, table)

    def at(self, ids: Class) -> Columns:
        """Return the values of tokens with these ids, in their order; 0 where there is no class."""
        if self.grid.positional:
            return self.values.get(ids, _zeros(self.grid))
        name = tuple(sorted(ids))
        if name not in self.values:
            return _zeros(self.grid)
        return tuple(self.values[name][name.index(k)] for k in ids)

    @property
    def largest(self) -> Fraction:
        """The largest |value|."""
        entries = (abs(v) for columns in self.values.values() for c in columns for v in c)
        return max(entries, default=Fraction(0))


def _power(base: int, exponent: int, most: int) -> int | None:
    """Return base^exponent, or None where it is more than ``most``."""
    result = 1
    for _ in range(exponent if base > 1 else 0):
        if result > most:
            break
        result *= base
    return result if result <= most else None


def _choose(points: int, chosen: int, most: int) -> int | None:
    """Return the binomial coefficient, or None where it is more than ``most``."""
    result = 1 if chosen <= points else 0
    for i in range(min(chosen, points - chosen)):  # after i steps it is 2^i or more
        if result > most:
            break
        result = result * (points - i) // (i + 1)
    return result if result <= most else None


def exact(value: object) -> Fraction:
    """Return a number as a rational; a float stands for the binary number it is."""
    try:
        if hasattr(value, "as_integer_ratio"):
            numerator, denominator = value.as_integer_ratio()
            return Fraction(int(numerator), int(denominator))
        if hasattr(value, "item"):
            return exact(value.item())
        return Fraction(str(value))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"{value!r} is not a finite number") from None


def _columns(rows: Iterable[Iterable[object]], grid: Grid) -> Columns:
    lines = tuple(tuple(exact(v) for v in row) for row in rows)
    if len(lines) != grid.tokens or any(len(line) != grid.dim for line in lines):
        shape = (len(lines), len(lines[0]) if lines else 0)
        raise InputError(
            f"values have shape {shape}; they should have shape (tokens, dim) = "
            f"({grid.tokens}, {grid.dim}), one row per token"
        )
    return lines


def _zeros(grid: Grid) -> Columns:
    return ((Fraction(0),) * grid.dim,) * grid.tokens
