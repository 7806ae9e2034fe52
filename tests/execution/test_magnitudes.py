"""Bounds stay bounds: every operation of ``magnitudes`` rounds outwards, extremes included."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.blueprint.domain import root_above
from exactformer.execution.magnitudes import Sizes, above, below, largest, times, total, up
from exactformer.execution.symbolic import value_range

non_negative = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
edges = st.sampled_from([0.0, 5e-324, 1e-310, 2.3e-308, 1e-160, 1e160, 1.7e308, 1.0, 1 - 2.0**-53])
sizes = st.one_of(non_negative, edges)


def covers(bound: float, exact: Fraction) -> bool:
    return math.isinf(bound) or Fraction(float(bound)) >= exact


@given(sizes, sizes)
@settings(max_examples=500)
def test_products_are_rounded_up(a: float, b: float) -> None:
    product = float(times(np.array([a]), np.array([b]))[0])
    exact = Fraction(a) * Fraction(b)
    assert covers(product, exact)
    assert (product == 0) == (exact == 0)


@given(st.lists(sizes, min_size=1, max_size=40))
@settings(max_examples=300)
def test_sums_are_rounded_up(values: list[float]) -> None:
    with np.errstate(over="ignore"):
        bound = float(total(np.array([values]), 1)[0])
    exact = sum(map(Fraction, values), Fraction(0))
    assert covers(bound, exact)
    assert (bound == 0) == (exact == 0)


@given(sizes, sizes, sizes)
@settings(max_examples=300)
def test_up_covers_the_operations_it_is_told(a: float, b: float, c: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        computed = np.array([a]) + np.array([b]) + np.array([c])
    assert covers(float(up(computed, 2)[0]), Fraction(a) + Fraction(b) + Fraction(c))


@pytest.mark.parametrize("operation", [up, lambda v: times(v, np.ones(1)), lambda v: total(v, 0)])
def test_a_nan_is_never_taken_for_zero(operation: object) -> None:
    """A bound that is not a number must not pass for a bound: every comparison with it fails."""
    result = operation(np.array([np.nan]))  # type: ignore[operator]
    assert not np.all(result < 1e308)


def test_infinity_stays() -> None:
    infinite = np.array([np.inf])
    assert np.isinf(up(infinite)[0])
    assert np.isinf(times(infinite, np.array([5e-324]))[0])
    assert times(infinite, np.array([0.0]))[0] == 0  # a structural zero


@given(st.fractions(), st.integers(-1200, 1200))
@settings(max_examples=300)
def test_above_and_below_enclose(fraction: Fraction, exponent: int) -> None:
    value = fraction * Fraction(2) ** exponent
    assert covers(above(value), abs(value))
    assert (above(value) == 0) == (value == 0)
    low = below(value)
    assert low == -math.inf or Fraction(low) <= value


@given(st.fractions(min_value=0), st.integers(-300, 300))
@settings(max_examples=300)
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
@settings(max_examples=200)
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
