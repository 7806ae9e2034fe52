"""Bounds of fused forms against the worst arithmetic that the standard model allows.

Each form is made so that one source causes nearly all of the error, at a point where all sizes are
attained.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.formats import FORMATS
from exactformer.core.matrix import Matrix
from exactformer.polynomials.proof.closed_form_rounding import fused_bound
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from tests.cases.worst_fused import worst_of_form

THIRD = Fraction(1, 3)
Numbers = Sequence[Fraction | int]
Case = tuple[FusedForm, Domain, list[Fraction]]


def form(
    features: Sequence[Numbers],
    coefficients: Sequence[Numbers],
    bias: Fraction | int = 0,
    centre: Numbers = (),
    basis: Basis = Basis.POWER,
) -> FusedForm:
    def matrix(rows: Sequence[Numbers]) -> Matrix:
        entries = {(i, j): v for i, row in enumerate(rows) for j, v in enumerate(row)}
        return Matrix.of(len(rows), len(rows[0]), entries)

    bias, middle = Fraction(bias), tuple(map(Fraction, centre))
    return FusedForm(matrix(features), middle, (matrix(coefficients),), (bias,), basis)


def at(edge: Fraction | int, fused: FusedForm) -> Case:
    """A form of one variable on |x| ≤ |edge|, at the edge."""
    return fused, Ball(abs(Fraction(edge))), [Fraction(edge)]


def powers() -> dict[str, Case]:
    """Forms in powers; small terms make the large ones meet every addition."""
    small, one = Fraction(1, 2**20), Fraction(1)
    box = Box((Fraction(100), Fraction(100)), (one, one))
    return {
        "a coefficient": at(3, form([[1]], [[THIRD, small]], small)),
        "a coefficient that is exact": at(7, form([[3]], [[5, small]], small)),
        "a coefficient of a token": at(7, form([[3], [1]], [[5, small], [small, 0]], small)),
        "a high power": at(3, form([[5]], [[0, 0, 0, THIRD, Fraction(1, 2**40)]], small)),
        "a high power below one": at(THIRD, form([[1]], [[0, 0, 0, 3, small]], small)),
        "powers that add up": at(3, form([[1]], [[81 * THIRD, 27 * THIRD, 3, 1, THIRD]])),
        "a feature": at(3, form([[THIRD]], [[1, small]], small)),
        "a feature that errs in a high power": at(3, form([[5 * THIRD]], [[0, 0, 0, 0, 1]])),
        "a feature that errs in a square": at(3, form([[5 * THIRD]], [[0, 1, small]], small)),
        "features that add up": (
            form([[9 * THIRD, 12 * THIRD]], [[1]]),
            Ball(Fraction(1)),
            [Fraction(3, 5), Fraction(4, 5)],
        ),
        "many features": (
            form([[3, small, small, small]], [[1]]),
            Box((Fraction(0),) * 4, (3 * one,) * 4),
            [3 * one] * 4,
        ),
        "tokens": at(3, form([[1]] * 9, [[Fraction(5)], *[[small]] * 8], small)),
        "tokens and a bias": at(1, form([[1]] * 9, [[small]] * 9, 3)),
        "a bias": at(1, form([[1]], [[small]], THIRD)),
        "a bias alone": at(1, form([[1]], [[0]], THIRD)),
        "a centre": (form([[1]], [[1]], 0, [100]), Box((100 * one,), (one,)), [101 * one]),
        "centres": (form([[1, 1]], [[1]], 0, [100, 100]), box, [Fraction(101)] * 2),
        "a centre that is rounded": (
            form([[1, 1]], [[1]], 0, [100 + THIRD, 100 + THIRD]),
            Box((100 + THIRD,) * 2, (one, one)),
            [Fraction(101) + THIRD] * 2,
        ),
        "a centre that is rounded far out": (
            form([[3]], [[1]], 0, [10**4 + THIRD]),
            Box((10**4 + THIRD,), (one,)),
            [10**4 + 1 + THIRD],
        ),
        "a centre and a weight": (form([[7, 5]], [[3]], 0, [100, 100]), box, [Fraction(101)] * 2),
    }


def polynomials() -> dict[str, Case]:
    """Chebyshev polynomials on [−1, 1], where they are largest at the ends."""
    small = Fraction(1, 2**20)

    def of(*coefficients: Fraction | int, feature: Fraction | int = 1) -> FusedForm:
        return form([[feature]], [coefficients], small, basis=Basis.CHEBYSHEV)

    return {
        "T_1": at(1, of(THIRD)),
        "T_1 and a little": at(1, of(3, small)),
        "T_2": at(1, of(0, THIRD)),
        "T_5": at(1, of(0, 0, 0, 0, THIRD)),
        "T_5 that is exact": at(1, of(0, 0, 0, 0, 3, small)),
        "T_5 of a feature": at(3, of(0, 0, 0, 0, 1, feature=THIRD)),
        "T_12 of a feature": at(3, of(*[0] * 11, 1, feature=THIRD)),
        "T_5 inside": (of(0, 0, 0, 0, 3), Ball(Fraction(1)), [Fraction(7, 8)]),
        "T_5 beyond": at(Fraction(9, 8), of(0, 0, 0, 0, THIRD)),
        "all": at(1, of(THIRD, THIRD, THIRD, THIRD, THIRD)),
        "a sum that begins small": at(1, of(3, small, 0, 0, small)),
        "signs that change": at(-1, of(-3, 3, -3, 3, -3)),
    }


CASES = powers() | polynomials()


@pytest.mark.spread(43)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_no_arithmetic_of_the_standard_model_exceeds_the_bound(name: str, format: str) -> None:
    fused, domain, x = CASES[name]
    reach = [domain.reach(fused.features.by_row.get(i, [])) for i in range(fused.features.rows)]
    every_order = fused.features.rows - 1
    claimed = fused_bound(fused, reach, domain, FORMATS[format], every_order).value
    assert claimed is not None
    found = worst_of_form(fused, x, FORMATS[format])
    assert Fraction(claimed) / 100 <= found <= Fraction(claimed)
