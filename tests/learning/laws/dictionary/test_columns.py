from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.learning.laws.dictionary.columns import fit_columns, power_columns

samples = st.tuples(
    st.integers(0, 2**32 - 1), st.floats(-1e4, 1e4), st.floats(1e-3, 1e3), st.integers(1, 6)
)


def drawn(seed, center, spread, degree):
    generator = np.random.default_rng(seed)
    X = center + spread * generator.normal(size=(200, 3))
    weight = generator.integers(1, 5, size=200).astype(float)
    return X, weight, fit_columns(X, weight, degree)


@given(samples)
def test_the_polynomials_are_orthonormal_for_the_sample(case):
    X, weight, columns = drawn(*case)
    values = columns.evaluate(X)
    for j in range(3):
        gram = (values[:, j] * weight) @ values[:, j].T / weight.sum()
        np.testing.assert_allclose(gram, np.eye(case[3] + 1), atol=1e-10)


@given(samples)
def test_the_change_to_powers_and_back_is_exactly_the_identity(case):
    _, _, columns = drawn(*case)
    for j in range(3):
        product = columns.powers(j, case[3], Fraction) @ columns.expansions(j, case[3], Fraction)
        # s and g = 1/s are two roundings of one number, so the product is the identity to rounding
        # in the recurrence alone, and exactly triangular with a unit diagonal.
        assert all(product[k, k] == 1 for k in range(case[3] + 1))
        assert not np.triu(product, 1).any()


@given(samples)
def test_powers_reproduce_the_recurrence(case):
    X, _, columns = drawn(*case)
    values = columns.evaluate(X[:5])
    for j in range(3):
        table = columns.powers(j, case[3], Fraction)
        for i in range(5):
            x = Fraction(float(X[i, j]))
            exact = [float(sum(c * x**p for p, c in enumerate(row))) for row in table]
            np.testing.assert_allclose(values[:, j, i], exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("distinct", [1, 2, 3, 5])
def test_degrees_stop_below_the_number_of_distinct_values(distinct):
    X = np.arange(60.0)[:, None] % distinct
    assert fit_columns(X, np.ones(60), 4).degree.tolist() == [min(4, distinct - 1)]


def test_a_constant_recurrence_gives_plain_powers():
    t = np.array([[2.0, -3.0]])
    np.testing.assert_array_equal(
        power_columns(2, 3).evaluate(t)[:, :, 0], [[1, 1], [2, -3], [4, 9], [8, -27]]
    )
