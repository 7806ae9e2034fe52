"""Tables of a proof, folded: one column for dimensions that no two tokens share.

A token's position is a dimension of its own, zero in every other token, so a table of n tokens has n
such columns with one number in each. As no token meets another's, they fold into one column, in which
every token has its own dimension. A token that uses several dimensions alone needs as many columns.

Who uses a dimension is read from the weights: a constant puts a token there, a readout that reads it
counts as use, and a value matrix carries the tokens of its columns to its rows. The feature, and every
dimension of a feed-forward layer, counts as used by all. Folded matrices keep each weight with the
token that it acts on; none is taken to equal another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from exactformer.core.layers import FeedForward, Head, Readout
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint

ALL = -1
"""The owner of a dimension that is not one token's alone."""
_NOBODY = -2

_Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """Where the dimensions of a stream, or the rows of a head, stand in a folded table."""

    place: tuple[int, ...]
    """The column of every dimension."""
    owner: tuple[int, ...]
    """The token that alone uses a dimension, or ``ALL``."""
    count: int

    @classmethod
    def plain(cls, count: int) -> Columns:
        """Return columns that are the dimensions themselves."""
        return cls(tuple(range(count)), (ALL,) * count, count)

    @classmethod
    def of(cls, owner: Sequence[int]) -> Columns:
        """Fold dimensions by their owners: the k-th of every token share a column.

        >>> Columns.of([ALL, 0, 1, 1, ALL]).place
        (0, 1, 1, 2, 3)
        """
        used: dict[int, int] = {}
        first: dict[tuple[bool, int], int] = {}
        place = []
        for token in owner:
            rank = used.get(token, 0)
            used[token] = rank + 1
            place.append(first.setdefault((token == ALL, rank), len(first)))
        return cls(tuple(place), tuple(owner), len(first))

    @property
    def private(self) -> NDArray[np.bool_]:
        """Which columns hold another dimension for every token."""
        private = np.zeros(self.count, dtype=bool)
        for column, token in zip(self.place, self.owner, strict=True):
            private[column] = token != ALL
        return private


@dataclass(frozen=True)
class Lines:
    """Rows of a folded matrix with equally many entries."""

    rows: _Indices
    columns: _Indices
    """rows × entries."""
    which: _Indices
    """The number of a weight, (1 or tokens) × rows × entries; weight 0 is zero."""


@dataclass(frozen=True)
class FoldedMatrix:
    """A matrix over folded columns: its weights, each once, and where every token meets them."""

    rows: int
    weights: tuple[Fraction, ...]
    lines: tuple[Lines, ...]

    @classmethod
    def plain(cls, matrix: Matrix, also: Iterable[int] = ()) -> FoldedMatrix:
        """Return a matrix that is not folded; ``also`` names rows to keep though they are empty."""
        inner, outer = Columns.plain(matrix.columns), Columns.plain(matrix.rows)
        return cls.of(matrix, inner, outer, 1, also)

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        inner: Columns,
        outer: Columns,
        tokens: int,
        also: Iterable[int] = (),
    ) -> FoldedMatrix:
        """Fold a matrix from columns ``inner`` to rows ``outer``."""
        numbers: dict[tuple[int, int], int] = {}
        weights = [Fraction(0)]
        entries: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for i, j, value in matrix:
            number = numbers.setdefault((value.numerator, value.denominator), len(weights))
            if number == len(weights):
                weights.append(value)
            token = inner.owner[j] if outer.owner[i] == ALL else outer.owner[i]
            row = entries.setdefault(outer.place[i], {})
            row.setdefault(inner.place[j], []).append((token, number))
        for i in also:
            entries.setdefault(outer.place[i], {})
        alike: dict[int, list[int]] = {}
        for place, line in entries.items():
            alike.setdefault(len(line), []).append(place)
        lines = (_lines(rows, entries, tokens) for rows in alike.values())
        return cls(outer.count, tuple(weights), tuple(lines))


def _lines(
    rows: Sequence[int], entries: dict[int, dict[int, list[tuple[int, int]]]], tokens: int
) -> Lines:
    shape = len(rows), len(entries[rows[0]])
    columns = np.array([list(entries[row]) for row in rows], dtype=int).reshape(shape)
    cells = [
        (a, b, *np.array(cell).T)
        for a, row in enumerate(rows)
        for b, cell in enumerate(entries[row].values())
    ]
    alone = any(owners[0] != ALL for _, _, owners, _ in cells)
    which = np.zeros((tokens if alone else 1, *shape), dtype=int)
    for a, b, owners, numbers in cells:
        which[slice(None) if owners[0] == ALL else owners, a, b] = numbers
    return Lines(np.array(rows), columns, which)


@dataclass(frozen=True)
class FoldedHead:
    """A head over folded columns, and the columns of its queries and keys."""

    query: FoldedMatrix
    key: FoldedMatrix
    value: FoldedMatrix
    columns: Columns


@dataclass(frozen=True)
class Folding:
    """The parts of a blueprint over the folded columns of its stream."""

    columns: Columns
    heads: tuple[tuple[FoldedHead, ...], ...]
    """By block."""
    layers: tuple[FeedForward, ...]
    """One per block: no dimension that it reads or writes is folded, only renamed."""
    readouts: tuple[Readout, ...]

    @classmethod
    def plain(cls, blueprint: Blueprint) -> Folding:
        """Return the parts as they are."""
        return cls._over(Columns.plain(blueprint.width), blueprint)

    @classmethod
    def of(cls, blueprint: Blueprint) -> Folding:
        """Fold a blueprint in which every token selects itself."""
        return cls._over(Columns.of(_owners(blueprint)), blueprint)

    @classmethod
    def _over(cls, columns: Columns, blueprint: Blueprint) -> Folding:
        n = blueprint.tokens

        def folded(head: Head) -> FoldedHead:
            rows = Columns.of(_row_owners(head, columns))
            query, key = (FoldedMatrix.of(m, columns, rows, n) for m in (head.query, head.key))
            return FoldedHead(query, key, FoldedMatrix.of(head.value, columns, columns, n), rows)

        return cls(
            columns,
            tuple(tuple(map(folded, block.attention.heads)) for block in blueprint.blocks),
            tuple(_renamed_layer(block.feed_forward, columns) for block in blueprint.blocks),
            tuple(replace(r, beta=_renamed(r.beta, columns=columns)) for r in blueprint.readouts),
        )


def _owners(blueprint: Blueprint) -> list[int]:
    """Return for every dimension the token that alone ever uses it, or ``ALL``."""
    owner = [_NOBODY] * blueprint.width
    owner[blueprint.embedding.dimension] = ALL
    for block in blueprint.blocks:
        layer = block.feed_forward
        for dimension in (*layer.w1.by_column, *layer.w2.by_row, *layer.b2.by_row):
            owner[dimension] = ALL
    for beta in (blueprint.embedding.constant, *(r.beta for r in blueprint.readouts)):
        for token, dimension, _ in beta:
            owner[dimension] = _joined(owner[dimension], token)
    carried = [
        place
        for block in blueprint.blocks
        for head in block.attention.heads
        for place in head.value.entries
    ]
    before: list[int] = []
    while owner != before:
        before = list(owner)
        for row, column in carried:
            owner[row] = _joined(owner[row], owner[column])
    return [ALL if token == _NOBODY else token for token in owner]


def _row_owners(head: Head, columns: Columns) -> list[int]:
    """Return for every row of a head the token that alone has a query or a key there, or ``ALL``."""
    owner = [_NOBODY] * head.query.rows
    for matrix in (head.query, head.key):
        for row, column in matrix.entries:
            owner[row] = _joined(owner[row], columns.owner[column])
    return [ALL if token == _NOBODY else token for token in owner]


def _joined(one: int, other: int) -> int:
    if _NOBODY in (one, other):
        return max(one, other)
    return one if one == other else ALL


def _renamed_layer(layer: FeedForward, columns: Columns) -> FeedForward:
    return replace(
        layer,
        w1=_renamed(layer.w1, columns=columns),
        w2=_renamed(layer.w2, rows=columns),
        b2=_renamed(layer.b2, rows=columns),
    )


def _renamed(matrix: Matrix, rows: Columns | None = None, columns: Columns | None = None) -> Matrix:
    """Return a matrix with its entries in folded rows or columns, no two of which meet there."""
    shape = rows.count if rows else matrix.rows, columns.count if columns else matrix.columns
    entries = {
        (rows.place[i] if rows else i, columns.place[j] if columns else j): value
        for i, j, value in matrix
    }
    return Matrix(*shape, entries)
