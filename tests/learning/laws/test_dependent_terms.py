"""Terms that the rows cannot tell apart: one law whatever the order of rows, and the terms by name."""

import warnings
from decimal import Decimal

import numpy as np
import pytest

from exactformer.learning.laws.dictionary.change_of_basis import (
    enough_digits,
    to_powers,
    to_products,
)
from exactformer.learning.laws.dictionary.columns import fit_columns
from exactformer.learning.laws.dictionary.terms import lower_closure
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import DependentColumnsWarning
from exactformer.learning.laws.sparse.forward_search import shares_outside, strongest_first

pytestmark = pytest.mark.filterwarnings("ignore::exactformer.learning.laws.diagnosis.LawWarning")


def half_circle(a):
    return np.column_stack([a, np.sqrt(np.abs(a).max() ** 2 - a**2)])


def circle():
    generator = np.random.default_rng(0)
    X = half_circle(np.round(generator.normal(size=600), 1))
    return X, np.exp(X[:, 0] / 2) / (1 + X[:, 1] ** 2), 2


def root():
    generator = np.random.default_rng(1)
    a = generator.standard_t(2, size=60) * 1e4
    X = np.column_stack([a, np.sign(a - np.median(a)), np.sqrt(np.abs(a))])
    return X, np.exp(np.clip(a / a.std(), -5, 5)) + 0.3 * generator.normal(size=60), 4


def far():
    generator = np.random.default_rng(2)
    X = np.column_stack([generator.exponential(size=300) + 1950, generator.integers(-5, 20, 300)])
    return X, np.sin(9 * (X[:, 0] - 1951)) + 0.1 * generator.normal(size=300), 13


def rounded():
    generator = np.random.default_rng(3)
    X = np.round(generator.normal(size=(700, 1)), 1)
    return X, np.exp(X[:, 0]) / (1 + X[:, 0] ** 2), "auto"


def copied():
    a = np.random.default_rng(4).integers(0, 3, 1500).astype(float)
    return np.column_stack([a, a]), -5.5e27 * a, 1


SETS = {case.__name__: case for case in (circle, root, far, rounded, copied)}


@pytest.mark.filterwarnings("ignore::exactformer.learning.laws.sample.DependentColumnsWarning")
@pytest.mark.parametrize("name", SETS)
def test_the_law_does_not_depend_on_the_order_of_rows(name):
    X, y, degree = SETS[name]()
    here = PolynomialAttentionRegressor(degree).fit(X, y)
    order = np.random.default_rng(5).permutation(len(X))
    other = PolynomialAttentionRegressor(degree).fit(X[order], y[order])
    law = {alpha: float(c) for alpha, c in here.polynomial_.terms().items()}
    assert other.degree_ == here.degree_
    assert set(other.polynomial_.terms()) == set(law)
    for alpha, c in other.polynomial_.terms().items():
        assert float(c) == pytest.approx(law[alpha], rel=1e-6)
    assert [*map(set, other.aliases_)] == [*map(set, here.aliases_)]


def test_dependent_terms_of_one_closure_are_named():
    X, y, degree = circle()
    with pytest.warns(DependentColumnsWarning, match=r"x2\^2 cannot be told"):
        law = PolynomialAttentionRegressor(degree).fit(X, y)
    assert "x2^2" in law.aliases_[0]


@pytest.mark.parametrize("seed", [0, 6, 11])
def test_dependent_terms_far_from_each_other_end_in_no_error(seed):
    X = half_circle(np.random.default_rng(seed).lognormal(0, 1.5, 300))
    with pytest.warns(DependentColumnsWarning):
        law = PolynomialAttentionRegressor().fit(X, np.sin(3 * X[:, 0] / X[:, 0].std()))
    assert np.isfinite(law.predict(X)).all()


def test_elimination_of_nearly_dependent_terms_takes_no_root_of_a_negative():
    X, y, degree = root()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", DependentColumnsWarning)
        law = PolynomialAttentionRegressor(degree).fit(X, y)
    assert np.isfinite(law.predict(X)).all()


def test_digits_are_enough_for_covariances_of_powers_far_from_the_origin():
    X = np.random.default_rng(0).exponential(size=(300, 1)) + 1950
    columns = fit_columns(X, np.ones(300), 13)
    closure = lower_closure([(13,)])
    with enough_digits(closure, columns):
        powers, back = (change(closure, columns, Decimal) for change in (to_powers, to_products))
        again = back @ (powers @ powers.T) @ back.T
    assert np.abs(again.astype(float) - np.eye(14)).max() < 1e-15


def test_statistics_that_differ_by_rounding_are_in_the_order_of_their_terms():
    assert strongest_first(np.array([1.0, 3.0, 2.0, 3.0 + 1e-12])) == [1, 3, 2, 0]
    assert strongest_first(np.zeros(0)) == []


def test_shares_are_those_outside_the_columns_that_are_kept():
    columns = np.array([[1.0, 1.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 4.0]])
    np.testing.assert_allclose(shares_outside(columns), [1, 0.5, 0, 16 / 25], atol=1e-30)


def test_of_laws_with_the_same_residuals_the_lowest_degree_is_written():
    """Here x1² is x3: whether x2 x3² is as good as x1² x2 x3 is not a matter of rounding."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, size=(400, 3))
    X[:, 2] = X[:, 0] ** 2
    y = X[:, 1] * X[:, 2] ** 2 + 0.3 * generator.normal(size=400)
    for _ in range(6):
        order = generator.permutation(400)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentColumnsWarning)
            law = PolynomialAttentionRegressor().fit(X[order], y[order])
        assert list(law.coef_table_.term) == ["x2 x3^2"]
