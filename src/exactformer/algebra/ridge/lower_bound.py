"""Lower bounds of the number of directions that polynomials need, whatever the family.

Every polynomial along n directions depends on at most n linear forms, and the catalecticant matrices of
its homogeneous parts, those of all components stacked, are sums of n matrices of rank one. Ranks modulo
a prime are at most the ranks, so the bound is certain.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import fmpq

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ridge.essential import essential
from exactformer.algebra.ridge.pencil import catalecticant, catalecticant_entries
from exactformer.algebra.ridge.vectors import pivots

_MAX_ENTRIES = 250_000


def least_width(polynomials: Sequence[Polynomial]) -> int:
    """Return a number of directions that no ridge form of the polynomials can be without.

    >>> least_width([Polynomial.parse("x^2 y^2")])
    3
    """
    d, q = polynomials[0].dimension, max(p.degree for p in polynomials)
    smaller = essential([p.flint for p in polynomials], d)
    forms, inner = (None, [p.flint for p in polynomials]) if smaller is None else smaller
    k = d if forms is None else len(forms)
    best = max(k, 1)
    for s in range(2, q + 1):
        parts = [
            {tuple(map(int, a)): fmpq(c) for a, c in p.to_dict().items() if sum(a) == s}
            for p in inner
        ]
        for a in range(1, s // 2 + 1):
            if catalecticant_entries(k, a, s - a) * len(parts) <= _MAX_ENTRIES:
                rows = [row for part in parts if part for row in catalecticant(part, k, a)]
                best = max(best, len(pivots(rows)))
    return best
