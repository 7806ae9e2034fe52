"""Bounds in a few digits: they stay bounds, and are no farther off than the digits demand."""

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.core.certificate import Bound, Kind
from exactformer.core.words import at_least, at_most

sizes = st.floats(0, 1e300)
digits = st.integers(1, 6)


@given(sizes, digits)
def test_bounds_are_never_printed_below_themselves_nor_lower_bounds_above(
    value: float, count: int
) -> None:
    assert float(at_least(value, count)) <= value <= float(at_most(value, count))


@given(st.integers(1000, 9998), st.integers(-12, 6), st.sampled_from([1e-6, 0.3, 0.5, 0.8]))
def test_four_digits_are_rounded_and_no_farther(number: int, power: int, part: float) -> None:
    low, high = (float(Fraction(number + k) * Fraction(10) ** power) for k in (0, 1))
    assert float(at_most(low, 4)) == float(at_least(low, 4)) == low
    between = low + (high - low) * part
    assert (float(at_least(between, 4)), float(at_most(between, 4))) == (low, high)


@pytest.mark.parametrize("shown", [at_least, at_most])
def test_nothing_and_everything_are_themselves(shown) -> None:
    assert (shown(0.0), shown(inf)) == ("0", "inf")
    assert shown(float("nan")) == "nan"


@given(sizes, st.sampled_from([".1e", ".3e", "12.2e", ".3g", ".0f", ",.2f", ".1%"]))
def test_bounds_that_are_formatted_stay_bounds(value: float, form: str) -> None:
    shown = format(Bound(value, {}, "|f − g|", Kind.PROVEN), form)
    assert float(shown.replace(",", "").replace("%", "e-2")) >= value
