"""Essential variables: the fewest linear forms that polynomials are functions of.

∂_v P = 0 for every v in a space N exactly if P depends on the linear forms that vanish on N alone.
These are spanned by the gradients of P: by the rows (coefficient of x^a in ∂_1 P, …, in ∂_d P), one for
every monomial. In echelon form L of that span each form owns a variable, and P(x) = p(Lx) where p is P
with the other variables set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from flint import fmpq, fmpq_mpoly

from exactformer.algebra.ridge.form import Direction, Ridges
from exactformer.algebra.ridge.vectors import pivots, primitive, row_space
from exactformer.algebra.ring import Exponents, ring

_FEW = 50
_MAX_ENTRIES = 5_000_000

Gradient = list[fmpq]


def essential(
    polynomials: Sequence[fmpq_mpoly], dimension: int
) -> tuple[list[Gradient], list[fmpq_mpoly]] | None:
    """Return L and the polynomials p with P(x) = p(Lx), or ``None`` if all variables are needed."""
    rows = _gradients(polynomials, dimension)
    some = list(rows.values())
    Random(0).shuffle(some)
    if len(pivots(some[: 4 * dimension + _FEW])) == dimension:
        return None
    if len(rows) * dimension > _MAX_ENTRIES:
        return None
    forms = row_space(list(rows.values()))
    if len(forms) == dimension:
        return None
    owned = [next(j for j, c in enumerate(form) if c != 0) for form in forms]
    inner = ring(len(forms))
    kept = [
        inner.from_dict(
            {
                tuple(a[j] for j in owned): c
                for a, c in polynomial.to_dict().items()
                if sum(a) == sum(a[j] for j in owned)
            }
        )
        for polynomial in polynomials
    ]
    lines = [linear(form) for form in forms]
    for polynomial, own in zip(polynomials, kept, strict=True):
        if lines and own.compose(*lines, ctx=ring(dimension)) != polynomial:
            return None  # an unlucky prime; without lines all derivatives vanish
    return forms, kept


def lifted(ridges: Ridges, forms: list[Gradient]) -> Ridges:
    """Return ridges in z = Lx as ridges in x, along the directions v·L."""
    in_x: dict[Direction, dict[int, fmpq]] = {}
    for v, powers in ridges.items():
        vector = [
            sum((c * form[j] for c, form in zip(v, forms, strict=True)), start=fmpq(0))
            for j in range(len(forms[0]))
        ]
        direction = primitive(vector)
        factor = next(a / b for a, b in zip(vector, direction, strict=True) if b)
        in_x[direction] = {s: c * factor**s for s, c in powers.items()}
    return in_x


def linear(form: Sequence[fmpq]) -> fmpq_mpoly:
    """Return a linear form as a polynomial."""
    d = len(form)
    unit = [tuple(int(i == j) for j in range(d)) for i in range(d)]
    return ring(d).from_dict({unit[i]: fmpq(c) for i, c in enumerate(form) if c != 0})


def _gradients(
    polynomials: Sequence[fmpq_mpoly], dimension: int
) -> dict[tuple[int, Exponents], Gradient]:
    rows: dict[tuple[int, Exponents], Gradient] = {}
    for k, polynomial in enumerate(polynomials):
        for a, c in polynomial.to_dict().items():
            for j, e in enumerate(a):
                if e:
                    lower = (*a[:j], e - 1, *a[j + 1 :])
                    row = rows.setdefault((k, lower), [fmpq(0)] * dimension)
                    row[j] = fmpq(c) * int(e)
    return rows
