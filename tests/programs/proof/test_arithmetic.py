"""The arithmetic of proofs: exact where it says so, and never below the truth elsewhere."""

from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.formats import FORMATS
from exactformer.core.matrix import Matrix
from exactformer.programs.proof.arithmetic import NEVER, Arithmetic, lowest_bits, times

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
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
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


def test_gamma_covers_so_many_roundings() -> None:
    arithmetic = Arithmetic(FORMATS["bfloat16"])
    for k in (1, 3, 20):
        grown = (1 + Fraction(1, 256)) ** k - 1
        assert Fraction(float(arithmetic.gamma(k))) >= grown
    assert np.isinf(arithmetic.gamma(256))
    assert float(Arithmetic().gamma(5)) == 0
