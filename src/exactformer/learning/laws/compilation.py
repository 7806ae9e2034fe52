"""Laws along directions as one certified transformer, and the box that holds their data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, comb, floor
from typing import TYPE_CHECKING

import numpy as np

from exactformer.core.domain import Box
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.law import RidgeLaw

if TYPE_CHECKING:
    from exactformer.algebra import Target
    from exactformer.algebra.ridge import RidgeForm
    from exactformer.polynomials.model import PolynomialModel

_DIGITS = 2
# A column with one value only gets an interval this narrow, as a share of the value.
_CONSTANT = Fraction(1, 2**10)


def data_box(ranges: Array) -> Box:
    """Return the box of ranges (d, 2), each rounded outwards to hundredths of its width's decade.

    >>> print(data_box(np.array([[-0.12345, 2.71828], [3.0, 3.0]])))
    [-13/100, 68/25] × [3069/1024, 3075/1024]
    """
    return Box.of([_side(Fraction(low), Fraction(high)) for low, high in ranges.tolist()])


def _side(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    if low == high:
        margin = abs(low) * _CONSTANT or Fraction(1)
        return low - margin, high + margin
    step = Fraction(10) ** (floor(np.log10(float(high - low))) - _DIGITS)
    return floor(low / step) * step, ceil(high / step) * step


def compile_ridges(
    laws: Sequence[RidgeLaw], variables: Sequence[str], box: Box, vector: bool
) -> PolynomialModel:
    """Compile laws into one model on a box, along their own directions."""
    from exactformer.algebra import Target

    rows = [_ridge_rows(law) for law in laws]
    nowhere = Box((Fraction(0),) * len(variables), (Fraction(1),) * len(variables))
    polynomials = [form.to_polynomial() for form in _ridge_forms(laws, rows, variables, nowhere)]
    target = Target.coerce(polynomials if vector else polynomials[0])
    return _compile_forms(_ridge_forms(laws, rows, variables, box), box, target)


Rows = list[list[Fraction]]


def _ridge_rows(law: RidgeLaw) -> Rows:
    """Return F as exact rationals over all columns."""
    F = np.zeros((len(law.F), law.data_range.dimension))
    F[:, law.data_range.used] = law.F
    return [[Fraction(c) for c in row] for row in F.tolist()]


def _ridge_forms(
    laws: Sequence[RidgeLaw], rows: Sequence[Rows], variables: Sequence[str], box: Box
) -> list[RidgeForm]:
    """Return the laws in the box's coordinates x = c + h u, all along all of their directions.

    With F_k·x = a + t, a = F_k·c and t = Σ_j F_kj h_j u_j, each power β (a + t)^s is multiplied out.
    Each direction is halved until it fits the unit ball.
    """
    from exactformer.algebra.ridge import RidgeForm

    degree = max(law.beta.shape[1] for law in laws)
    directions: list[tuple[Fraction, ...]] = []
    betas: list[list[tuple[Fraction, ...]]] = [[] for _ in laws]
    constants = [Fraction(law.b) for law in laws]
    for owner, (law, own) in enumerate(zip(laws, rows, strict=True)):
        for row, powers in zip(own, law.beta.tolist(), strict=True):
            start = sum((f * c for f, c in zip(row, box.centre, strict=True)), Fraction(0))
            local = [f * h for f, h in zip(row, box.half_widths, strict=True)]
            scale = _power_of_two_above(local)
            directions.append(tuple(f / scale for f in local))
            shifted = _shifted([Fraction(0), *map(Fraction, powers)], start, degree)
            constants[owner] += shifted[0]
            for k, beta in enumerate(betas):
                used = shifted[1:] if k == owner else [Fraction(0)] * degree
                beta.append(tuple(c * scale**s for s, c in enumerate(used, start=1)))
    return [
        RidgeForm(tuple(variables), constant, tuple(directions), tuple(beta), degree, "given")
        for constant, beta in zip(constants, betas, strict=True)
    ]


def _shifted(powers: list[Fraction], start: Fraction, degree: int) -> list[Fraction]:
    """Return the coefficients of t^0 … t^degree in Σ_s powers[s] (start + t)^s."""
    return [
        sum(
            (c * comb(s, r) * start ** (s - r) for s, c in enumerate(powers) if s >= r), Fraction(0)
        )
        for r in range(degree + 1)
    ]


def _compile_forms(forms: list[RidgeForm], box: Box, target: Target) -> PolynomialModel:
    from exactformer.core.options import FLOAT, MEMORY_LIMIT
    from exactformer.polynomials.constructions import construct
    from exactformer.polynomials.model import proven_model
    from exactformer.polynomials.proof.certify import prove
    from exactformer.polynomials.sizes import check_size

    check_size(target, forms[0].width, FLOAT, MEMORY_LIMIT)
    blueprint = construct("scaled", forms, box, target)
    return proven_model(blueprint, prove(blueprint, target), executor="fused")


def _power_of_two_above(row: list[Fraction]) -> Fraction:
    """Return the least power of two, from one upwards, that is at least ‖row‖."""
    square, scale = sum(c**2 for c in row), Fraction(1)
    while scale * scale < square:
        scale *= 2
    return scale
