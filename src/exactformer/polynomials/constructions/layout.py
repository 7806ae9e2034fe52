"""The token of the polynomial constructions: which row is what.

feature | position 1 … position n | power a … power q | one

The powers may be those of another basis: ``Chebyshev a`` … ``Chebyshev q``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from exactformer.core.domain import Domain
from exactformer.core.layers import Embedding
from exactformer.core.matrix import Matrix
from exactformer.core.rows import Rows, Weights


def token_rows(tokens: int, powers: Iterable[str]) -> Rows:
    """Return the rows of a token that has a position and stores the powers named."""
    return Rows("feature", *(f"position {i + 1}" for i in range(tokens)), *powers, "one")


def embedding(
    rows: Rows,
    directions: Sequence[Sequence[Fraction]],
    domain: Domain,
    marks: Sequence[Weights] | None = None,
) -> Embedding:
    """Return F·(x − c) with one direction per token, next to its marks: by default position and one."""
    if marks is None:
        marks = [{position: 1, "one": 1} for position in rows.every("position")]
    shifts = [-sum(c * domain.offset(j) for j, c in enumerate(row)) for row in directions]
    constant = [{**mark, "feature": shift} for mark, shift in zip(marks, shifts, strict=False)]
    features = {(i, j): c for i, row in enumerate(directions) for j, c in enumerate(row)}
    return Embedding(
        Matrix.of(len(marks), len(directions[0]), features),
        rows["feature"],
        rows.reading(*constant, *marks[len(constant) :]),
    )


def selector(rows: Rows, *products: Weights, position: Fraction | int = 1) -> Matrix:
    """Return the query or key of a head: what is multiplied, then the weighted position."""
    return rows.reading(*products, *({place: position} for place in rows.every("position")))


def readout(rows: Rows, columns: Mapping[str, Sequence[Fraction]], tokens: int) -> Matrix:
    """Return β, n × w; ``columns`` weighs a row for token after token, beginning with the first."""
    lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    return rows.reading(*lines, *[{}] * (tokens - len(lines)))
