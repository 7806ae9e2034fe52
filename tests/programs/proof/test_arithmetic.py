"""The arithmetic of proofs: exact where it says so, and never below the truth elsewhere."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.formats import EXP_ULPS, FORMATS
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, RoundingError
from exactformer.programs.proof.arithmetic import (
    LARGEST,
    NEVER,
    SMALLEST,
    UNKNOWN,
    Arithmetic,
    at_least_smallest,
    lowest_bits,
    plus,
    sum_above,
    sum_below,
    times,
    up,
)
from tests.examples import examples
from tests.programs.proof.steps import FORMAT_NAMES, holds

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(numbers, min_size=1, max_size=8))
def test_the_lowest_bit_of_a_float_is_the_largest_power_of_two_that_divides_it(
    xs: list[float],
) -> None:
    for x, bit in zip(xs, lowest_bits(np.array(xs)).tolist(), strict=True):
        if x == 0:
            assert bit == NEVER
        else:
            ratio = Fraction(x) / Fraction(2) ** bit
            assert ratio.denominator == 1
            assert ratio.numerator % 2


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_products_come_with_a_bound_of_their_error(data: st.DataObject) -> None:
    entries = st.one_of(st.integers(-50, 50).map(float), numbers, st.just(1 / 3))
    a = np.array(data.draw(st.lists(entries, min_size=6, max_size=6))).reshape(2, 3)
    b = np.array(data.draw(st.lists(entries, min_size=6, max_size=6))).reshape(3, 2)
    found, error = times(a, b)
    for i in range(2):
        for j in range(2):
            exact = sum(Fraction(a[i, k]) * Fraction(b[k, j]) for k in range(3))
            assert abs(Fraction(found[i, j]) - exact) <= Fraction(error[i, j])


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_sums_that_fit_are_exact_in_any_order(data: st.DataObject) -> None:
    """Multiples of 2^e whose sizes add up to at most 2^(e + p)."""
    name = data.draw(st.sampled_from(["float32", "bfloat16"]))
    arithmetic, dtype = Arithmetic(FORMATS[name]), getattr(torch, name)
    exponent = data.draw(st.integers(-6, 3))
    whole = data.draw(st.lists(st.integers(-200, 200), min_size=1, max_size=8))
    values = np.array(whole, dtype=float) * 2.0**exponent
    fits = arithmetic.is_exact(np.array(np.abs(values).sum()), np.array(exponent))
    if not fits:
        return
    order = data.draw(st.permutations(range(len(values))))
    total = torch.zeros((), dtype=dtype)
    for k in order:
        total = total + torch.tensor(values[k], dtype=dtype)
    assert float(total) == values.sum()


def test_weights_are_those_of_the_format_and_their_error_that_of_exact_arithmetic() -> None:
    third = Matrix.of(1, 2, {(0, 0): Fraction(1, 3), (0, 1): 1})
    values, errors = Arithmetic().weights(third)
    assert abs(Fraction(values[0, 0]) - Fraction(1, 3)) <= Fraction(errors[0, 0])
    assert errors[0, 1] == 0
    values, errors = Arithmetic(FORMATS["float32"]).weights(third)
    assert values[0, 0] == float(np.float32(1 / 3))
    assert not errors.any()


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_weights_that_may_be_taken_for_zero_are_refused(name: str) -> None:
    """A matrix unit may read a weight below the normal numbers as zero, however large its partner."""
    target = FORMATS[name]
    arithmetic, smallest = Arithmetic(target), Fraction(2) ** target.low

    def weight(value: Fraction) -> float:
        return float(arithmetic.weights(Matrix.of(1, 1, {(0, 0): value}))[0][0, 0])

    assert weight(-smallest) == -float(smallest)
    for value in (smallest / 2, -smallest / 4, smallest / 2**200):
        if target.flushes:
            with pytest.raises(RoundingError, match="take it for zero"):
                weight(value)
        else:
            assert Fraction(weight(value)) == target.round(value)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_numbers_that_may_be_taken_for_zero_cost_the_smallest_normal_number(name: str) -> None:
    target = FORMATS[name]
    arithmetic, smallest = Arithmetic(target), 2.0**target.low
    cases = [  # centre, radius, whether a number so near the centre can be below the normal ones
        (0.0, 0.0, False),
        (smallest, 0.0, False),
        (smallest / 2, 0.0, True),
        (-smallest / 2, 0.0, True),
        (0.0, smallest / 8, True),
        (-2 * smallest, 1.5 * smallest, True),
        (1.0, 0.5, False),
        (-1.0, 0.5, False),
    ]
    centre, radius, small = (np.array(column) for column in zip(*cases, strict=True))
    lost = arithmetic.flushed(centre, radius)
    assert lost.tolist() == [smallest * (s and target.flushes) for s in small]
    assert not Arithmetic().flushed(centre, radius).any()


def test_radii_are_zero_or_large_enough_to_be_multiplied() -> None:
    """Three weights, a code and a radius, all as small as can be, have a product that is no zero."""
    assert SMALLEST**5 >= 2.0**-1022
    radii = np.array([0.0, 2.0**-1074, SMALLEST / 2, SMALLEST, 1.0, np.inf])
    assert at_least_smallest(radii).tolist() == [0.0, *[SMALLEST] * 3, 1.0, np.inf]
    assert np.isnan(at_least_smallest(np.nan))


def test_gamma_covers_so_many_roundings() -> None:
    arithmetic = Arithmetic(FORMATS["bfloat16"])
    for k in (1, 3, 20):
        grown = (1 + Fraction(1, 256)) ** k - 1
        assert Fraction(float(arithmetic.gamma(k))) >= grown
    assert np.isinf(arithmetic.gamma(256))
    assert float(Arithmetic().gamma(5)) == 0


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_gamma_is_its_formula_up_to_half(name: str) -> None:
    arithmetic, u = Arithmetic(FORMATS[name]), Fraction(FORMATS[name].unit)
    for k in (1, 2, 3, 7, *(int(share / u) for share in (0.3, 0.44, 0.4999))):
        ku = k * u
        holds(arithmetic.gamma(k), ku / (1 - ku))
    half = int(Fraction(1, 2) / u)
    assert np.isinf(arithmetic.gamma([half, 2 * half, 5 * half])).all()
    assert arithmetic.tiny == FORMATS[name].tiny * (4 if FORMATS[name].flushes else 1)
    assert arithmetic.exponential == 2 * EXP_ULPS[name]


def test_exact_arithmetic_loses_nothing() -> None:
    arithmetic = Arithmetic()
    assert arithmetic.tiny == arithmetic.exponential == 0
    assert arithmetic.is_exact(np.full((2, 1), np.inf), np.full((1, 3), UNKNOWN)).all()
    arithmetic.check_range(np.inf, "a number")


def test_a_bound_is_raised_by_a_millionth() -> None:
    assert up(1.0) == 1 + 2.0**-20


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_sums_are_exact_up_to_the_precision_and_within_the_range(name: str) -> None:
    """Sums of multiples of 2^e are, up to 2^(e + p); 2^(e + p) + 2^e is not in the format."""
    target = FORMATS[name]
    arithmetic, p, low, high = Arithmetic(target), target.precision, target.low, target.high
    for e in (low, low + 1, -3, 0, 2, high - p - 1):
        top = 2.0 ** (e + p)
        beyond = Fraction(top) + Fraction(2) ** e
        assert target.round(beyond) != beyond
        assert arithmetic.is_exact(np.array([0.0, top]), np.array(e)).all()
        assert not arithmetic.is_exact(np.nextafter(top, np.inf), np.array(e))
    # Below the normal numbers sums may be flushed; at the top, partial sums may overflow.
    assert not arithmetic.is_exact(np.zeros(2), np.array([low - 1, UNKNOWN])).any()
    assert not arithmetic.is_exact(np.array(2.0**high), np.array([high, high + p, NEVER])).any()
    below = np.nextafter(2.0**high, 0)
    assert arithmetic.is_exact(np.array(below), np.array([high, high + p, NEVER])).all()
    arithmetic.check_range([0.0, below], "a number")
    for wrong in (2.0**high, np.inf, np.nan):
        with pytest.raises(CertificationError, match=f"a number can overflow in {name}"):
            arithmetic.check_range([0.0, wrong], "a number")


def test_an_interval_around_zero_has_no_lowest_bit_whatever_multiplies_it() -> None:
    """A product's lowest bit is a sum, and weights and codes are between 2^−1074 and 2^500."""
    everything = Arithmetic(FORMATS["float64"])
    assert not everything.is_exact(np.zeros(1), np.array([UNKNOWN + 4 * 1074])).any()
    assert everything.is_exact(np.ones(1), np.array([NEVER - 4 * 1074])).all()


@pytest.mark.parametrize("name", [None, *FORMAT_NAMES])
def test_weights_are_refused_beyond_what_products_allow(name: str | None) -> None:
    arithmetic = Arithmetic(None if name is None else FORMATS[name])

    def weight(value: Fraction) -> tuple[float, float]:
        values, errors = arithmetic.weights(Matrix.of(1, 1, {(0, 0): value}))
        return float(values[0, 0]), float(errors[0, 0])

    assert weight(Fraction(-3)) == (-3.0, 0.0)
    if name in (None, "float64"):
        assert weight(-Fraction(LARGEST)) == (-LARGEST, 0.0)
        for sign in (1, -1):
            with pytest.raises(RoundingError, match="of size"):
                weight(sign * Fraction(np.nextafter(LARGEST, np.inf)))
    else:
        with pytest.raises(RoundingError, match=f"beyond {name}"):
            weight(Fraction(2) ** 600)
    if name is None:
        with pytest.raises(RoundingError, match="below"):
            weight(Fraction(1, 2**1100))
        for value in (Fraction(SMALLEST), -Fraction(SMALLEST)):
            weight(value)
            with pytest.raises(RoundingError, match="below"):
                weight(value * (1 - Fraction(1, 2**53)))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("exponent", [0, 30, -200])
def test_weights_in_exact_arithmetic_err_by_half_a_unit_in_the_last_place(
    sign: int, exponent: int
) -> None:
    """The worst is a tie: 1 + 2^−53 is as far from 1 as the bound says."""
    spacing = Fraction(2) ** (exponent - 52)
    value = sign * (Fraction(2) ** exponent + spacing / 2)
    (found,), (error,) = (m[0] for m in Arithmetic().weights(Matrix.of(1, 1, {(0, 0): value})))
    away = abs(Fraction(found) - value)
    assert away == Fraction(error) == spacing / 2


@pytest.mark.parametrize(("a", "b"), [(0, 0), (500, 499), (-500, -499), (3, -60)])
def test_products_of_powers_of_two_are_exact(a: int, b: int) -> None:
    found, error = times(np.array([[2.0**a]]), np.array([[2.0**b]]))
    assert found == 2.0 ** (a + b)
    assert error == 0


def test_products_are_exact_as_long_as_sums_of_their_sizes_fit() -> None:
    """(2^26 + 1)·(2^26 + 1) has 53 bits; with one more bit on either side it has 54."""
    for low in (0, 7, -9):
        a, b = (np.array([[(2.0**26 + 1) * 2.0**k]]) for k in (low, 2 - low))
        assert times(a, b)[1] == 0
        assert times(a * 2 + 2.0**low, b)[1] > 0
    one, most = np.ones((1, 1)), np.array([[2.0**53 - 1, 1.0], [1.0, 1.0]])
    assert not times(one, most[:1])[1].any()
    assert times(np.ones((1, 2)), most)[1].all()  # 2^53 in one column is enough for all
    assert times(one, np.array([[2.0**53, 1.0]]))[1].all()
    assert times(np.array([[2.0**-500]]), np.array([[2.0**-500]]))[1] > 0
    with np.errstate(under="ignore"):
        tiny, error = times(np.array([[3e-200]]), np.array([[7e-200]]))
    assert tiny == 0
    assert Fraction(error[0, 0]) >= Fraction(3e-200) * Fraction(7e-200)


@pytest.mark.parametrize("terms", [1, 2, 5])
def test_a_product_that_is_rounded_errs_by_so_many_units(terms: int) -> None:
    rng = np.random.default_rng(terms)
    a, b = rng.normal(size=(6, terms)), rng.normal(size=(terms, 7))
    sizes = abs(np.vectorize(Fraction)(a)) @ abs(np.vectorize(Fraction)(b))
    holds(times(a, b)[1], sizes * terms / 2**53)


def test_empty_products_are_zero() -> None:
    for shape in ((0, 2), (3, 0), (0, 0)):
        a, b = np.ones(shape), np.ones((shape[1], 2))
        found, error = times(a, b)
        assert found.shape == error.shape == (shape[0], 2)
        assert not found.any()
        assert not error.any()
    assert times(np.ones((2, 2)), np.ones((2, 0)))[0].shape == (2, 0)


def test_sums_are_rounded_outwards_by_one_float_and_only_where_they_are_rounded() -> None:
    assert sum_below(2.0**53, 1.0) == 2.0**53 - 1
    assert sum_above(2.0**53, 1.0) == 2.0**53 + 2
    assert sum_below(1.0, 2.0) == sum_above(1.0, 2.0) == 3.0


SMALL = [0.0, 2.0**-1022, -1.5 * 2.0**-1022, (1 + 2.0**-52) * 2.0**-1000, -(2.0**-900), 1.0]


@pytest.mark.parametrize("flush", [False, True])
def test_sums_that_may_be_taken_for_zero_are_rounded_outwards(flush: bool) -> None:
    """1.5·2⁻¹⁰²² − 2⁻¹⁰²² comes out as 0 where it is flushed, and neither bound is 0 for it."""
    if not torch.set_flush_denormal(flush) and flush:
        pytest.skip("this processor cannot flush")
    try:
        found = [(a, b, sum_below(a, b), sum_above(a, b)) for a in SMALL for b in SMALL]
    finally:
        torch.set_flush_denormal(False)
    for a, b, low, high in found:
        exact = Fraction(a) + Fraction(b)
        assert Fraction(float(low)) <= exact <= Fraction(float(high))
        if not (a and b):
            assert float(low) == float(high) == a + b


def test_sums_count_as_rounded_where_both_numbers_are_small() -> None:
    """Exact sums, of numbers below 2⁻⁹⁰⁰ and not."""
    least, end = 2.0**-1022, 2.0**-900
    assert plus(end / 2, end / 2)[1] == plus(-end / 2, -end / 4)[1] == least
    for a, b in ((end, end), (end, end / 2**40), (-end, end / 2**40)):
        assert plus(a, b)[1] == plus(b, a)[1] == plus(-a, -b)[1] == 0
    assert plus(end / 2, 0.0)[1] == plus(0.0, -end / 2)[1] == 0
    assert sum_above(1.5 * least, -least) == 1.5 * least
    assert sum_below(1.5 * least, -least) == -0.5 * least
