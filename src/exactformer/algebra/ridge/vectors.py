"""Linear algebra over the rationals that the search for directions needs.

Ranks and pivots come from arithmetic modulo a prime, which is quick. An unlucky prime can only make a
rank too small; whatever is found with them is verified exactly by those who use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd, lcm

from flint import fmpq, fmpq_mat, nmod_mat

from exactformer.algebra.ridge.form import Direction

PRIME = 2**61 - 1

Table = Sequence[Sequence[fmpq]]


def modulo(value: fmpq) -> int:
    """Return a rational modulo the prime; 0 where its denominator vanishes there."""
    denominator = int(value.q) % PRIME
    return int(value.p) % PRIME * pow(denominator, -1, PRIME) % PRIME if denominator else 0


def reduced(table: Table) -> nmod_mat:
    """Return a table of rationals modulo the prime."""
    entries = [modulo(c) for row in table for c in row]
    return nmod_mat(len(table), len(table[0]), entries, PRIME)


def pivots(table: Table) -> list[int]:
    """Return the first columns that span all columns."""
    if not table or not table[0]:
        return []
    echelon, rank = reduced(table).rref()
    rows = ([int(c) for c in row] for row in echelon.tolist()[:rank])
    return [next(j for j, c in enumerate(row) if c) for row in rows]


def transposed(table: Table) -> list[list[fmpq]]:
    """Return columns as rows."""
    return [list(column) for column in zip(*table, strict=True)]


def row_space(table: Table) -> list[list[fmpq]]:
    """Return the reduced echelon basis of what the rows span."""
    chosen = [list(table[i]) for i in pivots(transposed(table))]
    if not chosen:
        return []
    echelon, rank = fmpq_mat(chosen).rref()
    return [[fmpq(c) for c in row] for row in echelon.tolist()[:rank]]


def kernel(table: Table, columns: int) -> list[list[fmpq]]:
    """Return a basis of the vectors that every row annihilates."""
    rows = row_space(table) if table else []
    leading = [next(j for j, c in enumerate(row) if c != 0) for row in rows]
    basis = []
    for free in (j for j in range(columns) if j not in leading):
        vector = [fmpq(int(j == free)) for j in range(columns)]
        for place, row in zip(leading, rows, strict=True):
            vector[place] = -row[free]
        basis.append(vector)
    return basis


def primitive(vector: Sequence[fmpq]) -> Direction:
    """Return the shortest integer vector on a line, its first entry positive."""
    denominator = reduce(lcm, (int(c.q) for c in vector), 1)
    whole = [int(c.p) * (denominator // int(c.q)) for c in vector]
    factor = gcd(*whole) or 1
    if next((v for v in whole if v), 0) < 0:
        factor = -factor
    return tuple(v // factor for v in whole)
