"""Linear algebra over the rationals, for the search for essential variables.

Ranks and pivots come from arithmetic modulo a prime, which is quick. An unlucky prime can only make a
rank too small; whatever is found with them is verified exactly by those who use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd, lcm

from flint import fmpq, fmpq_mat, nmod_mat

from exactformer.algebra.ridge.form import Direction

_PRIME = 2**61 - 1

Table = Sequence[Sequence[fmpq]]


def pivots(table: Table) -> list[int]:
    """Return the first columns that span all columns."""
    if not table or not table[0]:
        return []
    entries = [_modulo(c) for row in table for c in row]
    echelon, rank = nmod_mat(len(table), len(table[0]), entries, _PRIME).rref()
    rows = ([int(c) for c in row] for row in echelon.tolist()[:rank])
    return [next(j for j, c in enumerate(row) if c) for row in rows]


def row_space(table: Table) -> list[list[fmpq]]:
    """Return the reduced echelon basis of what the rows span."""
    chosen = [list(table[i]) for i in pivots(list(zip(*table, strict=True)))]
    if not chosen:
        return []
    echelon, rank = fmpq_mat(chosen).rref()
    return [[fmpq(c) for c in row] for row in echelon.tolist()[:rank]]


def primitive(vector: Sequence[fmpq]) -> Direction:
    """Return the shortest integer vector on a line, its first entry positive."""
    denominator = reduce(lcm, (int(c.q) for c in vector), 1)
    whole = [int(c.p) * (denominator // int(c.q)) for c in vector]
    factor = gcd(*whole) or 1
    if next((v for v in whole if v), 0) < 0:
        factor = -factor
    return tuple(v // factor for v in whole)


def _modulo(value: fmpq) -> int:
    """Return a rational modulo the prime; 0 where its denominator vanishes there."""
    denominator = int(value.q) % _PRIME
    return int(value.p) % _PRIME * pow(denominator, -1, _PRIME) % _PRIME if denominator else 0
