"""The bound of a polynomial by the sum of its Chebyshev coefficients, exactly and rounded."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import fmpq_poly
from hypothesis import given
from hypothesis import strategies as st

from exactformer.algebra import chebyshev
from exactformer.algebra.chebyshev import (
    absolute_sum,
    from_powers,
    nearest_absolute_sum,
    to_powers,
)
from exactformer.algebra.rational import to_float, to_fmpq, to_fraction

numbers = st.fractions(-3, 3, max_denominator=7)
reaches = st.fractions(Fraction(1, 4), 4, max_denominator=5)


def polynomial(coefficients: list[Fraction]) -> fmpq_poly:
    return fmpq_poly([to_fmpq(a) for a in coefficients])


@given(st.lists(numbers, max_size=9), reaches)
def test_the_bound_is_the_sum_of_the_absolute_coefficients(
    coefficients: list[Fraction], reach: Fraction
) -> None:
    """Σ c_k T_k(t/r) is at most Σ|c_k| on |t| ≤ r."""
    powers = [a / reach**s for s, a in enumerate(to_powers(coefficients))]
    bound = absolute_sum(polynomial(powers), reach)
    assert to_fraction(bound) == sum(map(abs, coefficients), Fraction(0))


def test_powers_in_chebyshev_polynomials_by_hand() -> None:
    """2t² = T_0 + T_2, 4t³ = 3T_1 + T_3, 8t⁴ = 3T_0 + 4T_2 + T_4, 16t⁵ = 10T_1 + 5T_3 + T_5."""
    expansions = ([1], [0, 1], [1, 0, 1], [0, 3, 0, 1], [3, 0, 4, 0, 1], [0, 10, 0, 5, 0, 1])
    for s, expansion in enumerate(expansions):
        power = [Fraction(int(k == s)) for k in range(s + 1)]
        whole = [Fraction(c, 2 ** max(s - 1, 0)) for c in expansion]
        assert from_powers(power) == whole
        assert from_powers([*power, Fraction(0), Fraction(0)]) == [*whole, 0, 0]
    assert from_powers([]) == []


@given(st.lists(numbers, max_size=40))
def test_conversions_are_inverse_to_each_other(coefficients: list[Fraction]) -> None:
    assert from_powers(to_powers(coefficients)) == coefficients
    assert to_powers(from_powers(coefficients)) == coefficients


scales = st.builds(lambda a, k: a * Fraction(2) ** k, numbers, st.integers(-200, 200))
lines = st.tuples(st.lists(scales, min_size=1, max_size=12), scales.filter(bool)).map(
    lambda parts: [*parts[0], parts[1]]
)


@given(lines, reaches, st.booleans())
def test_the_rounded_sum_is_the_nearest_float(
    coefficients: list[Fraction], reach: Fraction, widened: bool
) -> None:
    reach *= 1 + Fraction(widened, 2**32)
    p = polynomial(coefficients)
    assert nearest_absolute_sum(p, reach) == to_float(absolute_sum(p, reach))


@given(lines, reaches)
def test_the_first_digits_enclose_the_sum(coefficients: list[Fraction], reach: Fraction) -> None:
    p = polynomial(coefficients)
    low, high = chebyshev._enclosure(p, reach)
    assert low <= absolute_sum(p, reach) <= high <= low * (1 + to_fmpq(Fraction(1, 2**80)))


def test_an_enclosure_allows_for_all_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without digits to spare, two coefficients lose nearly three units, and four are allowed for."""
    monkeypatch.setattr(chebyshev, "_STEP", 1)
    most = Fraction(0)
    for k in range(1, 400):
        p, reach = polynomial([Fraction(1, 2 * k + 1), Fraction(7, 5)]), Fraction(k + 7, k + 3)
        low, high = (to_fraction(end) for end in chebyshev._enclosure(p, reach))
        exact = to_fraction(absolute_sum(p, reach))
        assert low <= exact <= high
        most = max(most, (exact - (low + high) / 2) / (high - low))
    assert most > Fraction(1, 4)


def test_ties_are_decided_by_all_digits() -> None:
    """1/3 + (2/3 + 2^−53) lies between two floats; a little more or less does not."""
    third = Fraction(1, 3)
    for change, wanted in ((0, 1.0), (1, 1 + 2.0**-52), (-1, 1.0)):
        rest = 1 - third + Fraction(1, 2**53) + Fraction(change, 2**300)
        assert nearest_absolute_sum(polynomial([third, rest]), Fraction(1)) == wanted


def test_high_degrees_lose_no_digit() -> None:
    """T_400(t) for |t| ≤ 1 is 1, though its coefficients have 150 digits."""
    p = polynomial(to_powers([Fraction(0)] * 400 + [Fraction(1)]))
    assert absolute_sum(p, Fraction(1)) == 1
    assert nearest_absolute_sum(p, Fraction(1)) == 1
    assert nearest_absolute_sum(p * 3, Fraction(1)) == 3
