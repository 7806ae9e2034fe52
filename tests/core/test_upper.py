"""Upper bounds stay upper bounds through every operation, and zeros stay zeros."""

from collections.abc import Iterator
from fractions import Fraction
from math import inf, nan, nextafter

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp

from exactformer.core.upper import Upper, above, below, exp_above, float_above, gamma
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # of overflows, which are infinite

SMALLEST = float(np.finfo(np.float64).tiny)
numbers = st.one_of(
    st.just(0.0),
    st.floats(SMALLEST, 1e300),
    st.integers(1, 2**53).map(lambda n: n * 2.0**-52),
)
tables = st.integers(1, 6).flatmap(lambda n: st.lists(numbers, min_size=n, max_size=n))


def assert_above(bound: Upper, exact: list[Fraction]) -> None:
    """The bounds are at least the numbers, zero where they are, and never subnormal."""
    for value, number in zip(bound.values.reshape(-1).tolist(), exact, strict=True):
        assert value == inf or Fraction(value) >= number
        assert (value == 0) == (number == 0)
        assert value == 0 or value >= SMALLEST


@given(numbers, numbers)
def test_sums_products_and_quotients_are_rounded_up(a: float, b: float) -> None:
    x, y = Fraction(a), Fraction(b)
    assert_above(Upper(a) + Upper(b), [x + y])
    assert_above(a + Upper(b), [x + y])
    assert_above(Upper(a) * Upper(b), [x * y])
    assert_above(np.array([a, 1.0]) * Upper(b), [x * y, y])
    if b:
        assert_above(Upper(a) / b, [x / y])


def test_one_rounding_is_made_good() -> None:
    """Each of these is rounded down by float64: without a step outwards the bound would fail."""
    third, tenth = 1 / 3, 0.1
    assert Fraction(third) * Fraction(2) ** -60 + 1 > Fraction(third * 2**-60 + 1)
    assert_above(Upper(third * 2**-60) + 1.0, [Fraction(third) * Fraction(2) ** -60 + 1])
    down = next(
        k
        for k in range(1, 100)
        if Fraction(k * tenth) * Fraction(third) > Fraction(k * tenth * third)
    )
    assert_above(Upper(down * tenth) * third, [Fraction(down * tenth) * Fraction(third)])
    down = next(k for k in range(3, 100) if Fraction(1, k) > Fraction(1 / k))
    assert_above(Upper(1.0) / down, [Fraction(1, down)])
    down = next(k for k in range(2, 100) if Fraction(k) > Fraction(float(np.sqrt(k))) ** 2)
    assert Fraction(float(Upper(down).root())) ** 2 >= down


@given(numbers, st.integers(0, 9))
def test_powers_are_rounded_up(a: float, exponent: int) -> None:
    assert_above(Upper(a) ** exponent, [Fraction(a) ** exponent])


@given(tables)
def test_sums_of_many_are_rounded_up(values: list[float]) -> None:
    assert_above(Upper(values).sum(), [sum(map(Fraction, values), Fraction(0))])
    both = Upper([values, values])
    assert_above(both.sum(1), [sum(map(Fraction, values), Fraction(0))] * 2)
    assert_above(both.sum(0), [2 * Fraction(value) for value in values])


def test_long_sums_that_lose_every_small_term_are_rounded_up() -> None:
    values = np.full(10_000, 2.0**-53)
    values[0] = 1.0
    ordered = Upper(np.stack([values, values])).sum(0)
    assert_above(ordered, [2 * Fraction(value) for value in values.tolist()])
    exact = 1 + 9_999 * Fraction(2) ** -53
    assert_above(Upper(values).sum(), [exact])
    # NumPy adds the rows of a matrix one after the other: here every small term is lost.
    columns = np.stack([values, values], axis=1)
    assert Fraction(columns.sum(axis=0)[0]) < exact
    assert_above(Upper(columns).sum(0), [exact, exact])


@given(tables, st.data())
def test_products_of_matrices_are_rounded_up(values: list[float], data: st.DataObject) -> None:
    other = data.draw(st.lists(numbers, min_size=len(values), max_size=len(values)))
    exact = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(values, other, strict=True)), Fraction(0)
    )
    assert_above(Upper([values]) @ Upper([other]).transposed, [exact])


def test_long_products_of_matrices_that_lose_every_small_term_are_rounded_up() -> None:
    a = np.full((1, 4_000), 2.0**-27)
    a[0, 0] = 1.0
    exact = 1 + 3_999 * Fraction(2) ** -54
    assert_above(Upper(a) @ Upper(a).transposed, [exact])


@given(numbers)
def test_roots_are_rounded_up(a: float) -> None:
    root = float(Upper(a).root())
    assert root == 0 if a == 0 else Fraction(root) ** 2 >= Fraction(a)


@given(st.integers(0, 2**60), st.sampled_from([2.0**-53, 2.0**-24, 2.0**-8]))
def test_gamma_is_above_its_formula(count: int, unit: float) -> None:
    ku = Fraction(float(count)) * Fraction(unit)
    found = float(gamma(float(count), unit))
    assert found == inf if ku >= Fraction(1, 2) else Fraction(found) >= ku / (1 - ku)
    assert found == inf or found <= 1.0000001 * float(ku / (1 - ku))


@given(st.fractions(), st.integers(-1200, 1100))
def test_a_rational_lies_between_its_bounds(value: Fraction, exponent: int) -> None:
    value *= Fraction(2) ** exponent
    assert_above(Upper.of(value), [abs(value)])
    assert Fraction(below(value)) < value if below(value) > -inf else True
    assert above(value) == float(Upper.of(value))


LARGEST = float(np.finfo(np.float64).max)


@given(st.floats(-LARGEST, LARGEST, allow_subnormal=False))
def test_a_float_is_its_own_float_above(value: float) -> None:
    """And it is that of every rational down to the float before it."""
    exact, before = Fraction(value), nextafter(value, -inf)
    assert float_above(exact) == value
    if before > -inf and abs(before) >= SMALLEST:
        for share in (Fraction(1, 10**9), Fraction(1, 2), 1 - Fraction(1, 10**9)):
            assert float_above(exact - share * (exact - Fraction(before))) == value


def test_the_float_above_what_no_float_reaches_is_infinite() -> None:
    assert float_above(Fraction(LARGEST) + 1) == float_above(Fraction(2) ** 1024) == inf
    assert float_above(-Fraction(LARGEST) - 1) == float_above(-(Fraction(2) ** 1024)) == -LARGEST
    assert float_above(Fraction(1, 2**2000)) == SMALLEST


def test_no_float_above_may_be_taken_for_zero() -> None:
    for size in (
        Fraction(1, 2**1074),
        3 * Fraction(1, 2**1030),
        Fraction(1, 2**1022) * (1 - Fraction(1, 2**60)),
    ):
        assert float_above(size) == SMALLEST
        assert str(float_above(-size)) == "0.0"
    assert float_above(Fraction(1, 2**1022)) == -float_above(-Fraction(1, 2**1022)) == SMALLEST


@given(st.fractions(-700, 700))
@example(Fraction(0))
@settings(max_examples=examples(30))
def test_exponentials_are_rounded_up_by_little(exponent: Fraction) -> None:
    with mp.workprec(200):
        exact = mp.exp(mp.mpf(exponent.numerator) / exponent.denominator)
        found = exp_above(exponent)
        ratio = mp.mpf(found.numerator) / found.denominator / exact
        assert 1 <= ratio <= 1 + (abs(float(exponent)) + 2) * mp.mpf(2) ** -50


def test_small_exponentials_are_above_those_of_the_smallest_exponent() -> None:
    assert exp_above(Fraction(-701)) == exp_above(Fraction(-(10**9))) == exp_above(Fraction(-700))
    assert exp_above(Fraction(-700)) < Fraction(1, 2**1009) < exp_above(Fraction(-699))


def test_bounds_are_tight() -> None:
    step = 2.0**-52
    assert float(Upper(1.0) + 0.0) == float(Upper(1.0) * 1.0) == 1 + step
    many = np.ones((1, 1000))
    assert 1000 < float(Upper(many).sum()) <= 1000 * (1 + 1001 * step)
    assert 1000 < float((Upper(many) @ Upper(many).transposed)[0, 0]) <= 1000 * (1 + 1003 * step)
    assert float(Upper(many).sum(0)[0]) == 1 + step


def test_no_digit_is_left_from_half_on() -> None:
    assert float(gamma(2**7 - 1, 2.0**-8)) < 1
    assert float(gamma(2**7, 2.0**-8)) == inf


def test_gamma_of_a_fraction_of_a_rounding_is_above_its_formula() -> None:
    """1 − ku is rounded as well: here both roundings go down."""
    ku = 107.0583153569885 * 2.0**-8
    exact = Fraction(ku) / (1 - Fraction(ku))
    assert Fraction(ku / (1 - ku) * (1 + 2.0**-52)) < exact
    assert Fraction(float(gamma(107.0583153569885, 2.0**-8))) >= exact


def test_only_zeros_are_zero() -> None:
    assert Upper([0.0, SMALLEST, nan]).nonzero.tolist() == [False, True, True]


@pytest.fixture
def flushing() -> Iterator[None]:
    """What underflows becomes zero, and numbers that have underflowed are read as zero."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    yield
    torch.set_flush_denormal(False)


def test_products_that_are_flushed_are_bounded(flushing: None) -> None:
    half = Upper(np.full((1, 8), 2.0**-511 * 0.5))
    exact = Fraction(2) ** -1024
    assert 2.0**-512 * 2.0**-512 == 0
    assert Fraction(float((half * half)[0, 0])) >= exact
    assert Fraction(float((half @ half.transposed)[0, 0])) >= 8 * exact
    least = Upper(np.full((1, 8), 2.0**-511))
    assert Fraction(float((least * 0.75 @ least.transposed)[0, 0])) >= 6 * Fraction(2) ** -1022


def test_what_is_flushed_is_not_above_itself(flushing: None) -> None:
    """A bound of 2⁻¹⁰³⁰ came out as zero, or as the float after it."""
    for bits in (1023, 1030, 1074, 1100):
        assert Fraction(float_above(Fraction(1, 2**bits))) >= Fraction(1, 2**bits)
        assert Fraction(above(Fraction(1, 2**bits))) >= Fraction(1, 2**bits)


def test_the_larger_and_the_smaller_of_two() -> None:
    a, b = Upper([1.0, 4.0]), Upper([2.0, 3.0])
    assert a.or_above(b).values.tolist() == [2, 4]
    assert a.or_below(b).values.tolist() == [1, 3]
    assert a.where(np.array([True, False])).values.tolist() == [1, 0]
    assert Upper.stack([a, b]).max(0).values.tolist() == [2, 4]
    assert float(Upper.zeros((0,)).max()) == 0


def test_only_what_is_certain_is_below_a_limit() -> None:
    assert not Upper(1.0) < 1.0
    assert Upper(1.0) < 1.5
    assert np.array([1.5, 0.5]).__gt__(Upper(1.0)) is NotImplemented
    assert (np.array([1.5, 0.5]) > Upper([1.0, 1.0])).tolist() == [True, False]
    assert not Upper(nan) < inf
    assert not (Upper(nan) + 1.0) * 2.0 < inf


def test_there_is_no_difference_of_upper_bounds() -> None:
    with pytest.raises(TypeError):
        Upper(1.0) - Upper(0.5)  # type: ignore[operator]
    with pytest.raises(TypeError):
        np.array([1.0]) - Upper(0.5)  # type: ignore[operator]
