"""Sets of values in cells: equal ones merged, chains of them, and all means of selected numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import gcd

import numpy as np

from exactformer.errors import SizeError
from exactformer.programs.values import Value
from exactformer.programs.witness import Flags, Integers

MOST_SUMS = 2_000_000
"""Sums of selected numbers, with their counts, that are followed for one mean."""
MOST_BITS = 2**26
"""How far apart such sums may lie, in steps of their common divisor."""


def is_strict_chain(rows: Flags) -> bool:
    """Whether rows of a square table are nested, the larger of two with the place of one of them.

    It must have the place of one of the two that the smaller has not.
    """
    order = np.argsort(rows.sum(1), kind="stable")
    sorted_rows = rows[order]
    if (sorted_rows[:-1] & ~sorted_rows[1:]).any():
        return False
    here = sorted_rows[:, order]
    itself = np.diagonal(here)
    strict = (here.T & ~itself[:, None]) | (itself[None, :] & ~here)
    return bool((strict | ~np.triu(np.ones(strict.shape, bool), 1)).all())


def merged(sets: Flags, cells: Integers) -> tuple[Flags, Integers]:
    """Return the different sets, and the cells' numbers of them."""
    used, cells = np.unique(cells, return_inverse=True)
    sets = sets[used]
    _, first, back = np.unique(
        np.packbits(sets, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return sets[first], back.ravel()[cells.ravel()]


def all_means(members: list[list[int]], row: list[int], scale: int, name: str) -> set[Value]:
    """Return every mean of numbers of which some are selected for certain and some perhaps.

    For every count of selected numbers, the sums are the bits of an integer, above the least sum.
    """
    count, low, high = len(members), max(row[-2], 1), row[-1]
    chosen = [members[k] for k in range(count) if row[k] or row[count + k]]
    if not chosen or high == 0:
        return set()
    least = min(map(min, chosen))
    step = gcd(*(v - least for own in chosen for v in own)) or 1
    if (max(map(max, chosen)) - least) // step * high > MOST_BITS:
        raise SizeError(f"{name}: sums of selected numbers are too far apart to be followed")
    sums = {0: 1}
    for k in range(count):
        shifts = [(v - least) // step for v in members[k]]
        for turn in range(row[k] + row[count + k]):
            grown: dict[int, int] = {} if turn < row[k] else dict(sums)
            for c, bits in sums.items():
                if c < high:
                    more = reduce(lambda a, b: a | b, (bits << s for s in shifts))
                    grown[c + 1] = grown.get(c + 1, 0) | more
            sums = grown
        if sum(bits.bit_count() for bits in sums.values()) > MOST_SUMS:
            raise SizeError(
                f"{name}: more than {MOST_SUMS:,} different sums of selected numbers; use a smaller "
                "max_length, or average numbers with fewer different values"
            )
    found: set[Value] = set()
    for c, bits in sums.items():
        if c < low:
            continue
        at = 0
        while bits:
            zeros = (bits & -bits).bit_length() - 1
            at, bits = at + zeros, bits >> zeros
            mean = Fraction(at * step + c * least, c * scale)
            found.add(int(mean) if mean.denominator == 1 else mean)
            bits &= ~1
    return found
