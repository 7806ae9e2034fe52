"""Sizes of polynomials hold on their whole interval, and are exact for monomials."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.domain import root_above
from exactformer.polynomials.proof.folded_tables import Columns
from exactformer.polynomials.proof.magnitudes import Sizes, largest, value_range
from tests.examples import examples


def covers(bound: float, exact: Fraction) -> bool:
    return math.isinf(bound) or Fraction(float(bound)) >= exact


@given(st.fractions(min_value=0), st.integers(-300, 300))
@settings(max_examples=examples(300))
def test_root_above_is_above_and_close(fraction: Fraction, exponent: int) -> None:
    square = fraction * Fraction(4) ** exponent
    root = root_above(square)
    assert root * root >= square
    assert root * root <= square * (1 + Fraction(1, 2**60))
    assert root_above(fraction * fraction) == fraction


polynomials = st.lists(st.fractions(-9, 9), max_size=6)


def at(coefficients: list[Fraction], t: Fraction) -> Fraction:
    return sum((c * t**k for k, c in enumerate(coefficients)), Fraction(0))


@given(polynomials, st.fractions(0, 5), st.lists(st.fractions(-1, 1), min_size=1, max_size=8))
@settings(max_examples=examples(200))
def test_ranges_and_sizes_hold_on_the_interval(
    coefficients: list[Fraction], reach: Fraction, places: list[Fraction]
) -> None:
    polynomial = fmpq_poly([fmpq(c.numerator, c.denominator) for c in coefficients])
    low, high = value_range(polynomial, reach)
    bound = largest(polynomial, reach)
    remembered = Sizes([reach, Fraction(1), reach])
    for place in [*places, Fraction(1), Fraction(-1), Fraction(0)]:
        value = at(coefficients, place * reach)
        assert low <= value <= high
        assert covers(bound, abs(value))
        assert remembered.size(0, polynomial) == remembered.size(2, polynomial) == bound


def test_monomials_have_exact_sizes() -> None:
    assert largest(fmpq_poly([0, 0, 3]), Fraction(1, 2)) == np.nextafter(0.75, 1)
    assert largest(fmpq_poly([]), Fraction(5)) == 0
    assert largest(fmpq_poly([0, 7]), Fraction(0)) == 0


def test_entries_that_are_constants_are_known_as_such() -> None:
    texts = [[-2], [2, 1], [0, 1], [fmpq(1, 3)], [fmpq(10) ** 400]]
    entries = dict(enumerate(map(fmpq_poly, texts)))
    _, constants = Sizes([Fraction(1)]).tables([entries], Columns.plain(len(entries)))
    assert constants.tolist() == [[2, 0, 0, 0, 0]]


def test_sizes_are_rounded_up() -> None:
    for k in range(1, 60):
        bound = largest(fmpq_poly([fmpq(1, k), fmpq(1, k)]), Fraction(1))
        assert Fraction(2, k) <= Fraction(bound) <= Fraction(2, k) * (1 + Fraction(1, 2**51))
