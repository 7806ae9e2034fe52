from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exactformer.learning.laws.dictionary.change_of_basis import (
    contract,
    expand,
    shorten,
    to_powers,
    to_powers_sparse,
)
from exactformer.learning.laws.dictionary.columns import fit_columns
from exactformer.learning.laws.dictionary.terms import lower_closure, products

ALPHAS = st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=1, max_size=4, unique=True)


def columns_at(center):
    X = center + np.random.default_rng(1).normal(size=(50, 2))
    return X, fit_columns(X, np.ones(50), 3)


@given(ALPHAS, st.floats(-100, 100))
def test_expanding_gives_the_same_values(alphas, center):
    X, columns = columns_at(center)
    coefficients = {a: Fraction(i + 1) for i, a in enumerate(alphas)}
    powers = expand(coefficients, columns)
    values = products(alphas, columns, X[:3]) @ np.arange(1.0, len(alphas) + 1)
    for row, value in zip(X[:3], values, strict=True):
        x, y = (Fraction(float(v)) for v in row)
        exact = sum(c * x ** a[0] * y ** a[1] for a, c in powers.items())
        assert abs(float(exact) - value) <= 1e-9 * (1 + abs(value))


@given(ALPHAS, st.floats(-100, 100))
def test_contracting_what_was_expanded_is_the_identity_to_rounding(alphas, center):
    _, columns = columns_at(center)
    coefficients = {a: Fraction(i + 1) for i, a in enumerate(alphas)}
    back = contract(expand(coefficients, columns), columns)
    for alpha, c in back.items():
        assert abs(c - coefficients.get(alpha, 0)) < Fraction(1, 10**6)


@given(ALPHAS)
def test_the_matrix_and_its_sparse_form_agree(alphas):
    _, columns = columns_at(2.0)
    closed = lower_closure(alphas)
    np.testing.assert_array_equal(
        to_powers(closed, columns), to_powers_sparse(closed, columns).toarray()
    )


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 5)),
        st.fractions(-100, 100, max_denominator=10**9),
        max_size=5,
    ),
    st.floats(0.1, 3000),
    st.floats(1e-12, 1),
)
def test_shortening_changes_no_value_by_more_than_the_tolerance(terms, reach, tolerance):
    short = shorten(terms, np.array([reach, reach]), tolerance)
    worst = sum(abs(short[a] - c) * Fraction(reach) ** sum(a) for a, c in terms.items())
    assert worst <= Fraction(tolerance)
    assert all(c == 0 or short[a] != 0 for a, c in terms.items())


def test_near_the_origin_floats_are_enough():
    third = Fraction(1, 3)
    assert shorten({(1,): third}, np.array([1.0]), 1e-9) == {(1,): Fraction(1 / 3)}


def test_far_from_the_origin_more_bits_are_kept():
    short = shorten({(5,): Fraction(1, 3)}, np.array([2000.0]), 1e-9)[(5,)]
    assert short != Fraction(1 / 3)
    assert abs(short - Fraction(1, 3)) * 2000**5 <= Fraction(1e-9)
