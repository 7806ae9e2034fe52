"""Sparse matrices with exact entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Entries = Mapping[tuple[int, int], Fraction]


@dataclass(frozen=True)
class Matrix:
    """A matrix of rationals that stores what is not zero. Vectors are matrices of one column."""

    rows: int
    columns: int
    entries: Entries

    def __post_init__(self) -> None:
        for (i, j), value in self.entries.items():
            if not (0 <= i < self.rows and 0 <= j < self.columns):
                raise InputError(
                    f"entry ({i}, {j}) lies outside a {self.rows}×{self.columns} matrix"
                )
            if value == 0:
                raise InputError(f"entry ({i}, {j}) is an explicit zero; leave it out")

    @classmethod
    def of(
        cls, rows: int, columns: int, entries: Mapping[tuple[int, int], Fraction | int]
    ) -> Matrix:
        """Build from entries in any order, dropping zeros."""
        kept = {place: Fraction(v) for place, v in sorted(entries.items()) if v != 0}
        return cls(rows, columns, kept)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def nonzeros(self) -> int:
        """How many entries are not zero."""
        return len(self.entries)

    @cached_property
    def by_column(self) -> dict[int, list[tuple[int, Fraction]]]:
        """Entries as ``{column: [(row, value), …]}``, the order in which sparse vectors meet them."""
        columns: dict[int, list[tuple[int, Fraction]]] = {}
        for (i, j), value in self.entries.items():
            columns.setdefault(j, []).append((i, value))
        return columns

    @cached_property
    def by_row(self) -> dict[int, list[tuple[int, Fraction]]]:
        """Entries as ``{row: [(column, value), …]}``."""
        rows: dict[int, list[tuple[int, Fraction]]] = {}
        for (i, j), value in self.entries.items():
            rows.setdefault(i, []).append((j, value))
        return rows

    def floats(self) -> NDArray[np.float64]:
        """Return the dense matrix in float64, for looking at: entries are rounded or infinite."""
        from exactformer.algebra.rational import to_float

        array = np.zeros(self.shape)
        for i, j, value in self:
            array[i, j] = to_float(value)
        return array

    def __getitem__(self, place: tuple[int, int]) -> Fraction:
        return self.entries.get(place, Fraction(0))

    def __iter__(self) -> Iterator[tuple[int, int, Fraction]]:
        for (i, j), value in self.entries.items():
            yield i, j, value


def column(numbers: Sequence[Fraction | int]) -> Matrix:
    """Return numbers as a matrix of one column: biases.

    >>> column([1, 0, 2]).entries
    {(0, 0): Fraction(1, 1), (2, 0): Fraction(2, 1)}
    """
    return Matrix.of(len(numbers), 1, {(m, 0): v for m, v in enumerate(numbers)})
