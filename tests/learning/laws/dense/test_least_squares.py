import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from exactformer.errors import InputError, SizeError
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from tests.examples import examples
from tests.learning.laws.targets import f2_sample


def noisy(rows, columns, seed=0, center=0.0):
    generator = np.random.default_rng(seed)
    X = center + generator.normal(size=(rows, columns))
    return X, np.sin(X).sum(axis=1) + 0.1 * generator.normal(size=rows)


def least_squares(degree, **options):
    return PolynomialAttentionRegressor(degree, solver="least-squares", **options)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
@settings(max_examples=examples(20))
def test_the_fit_is_the_least_squares_fit(columns, degree, seed):
    X, y = noisy(200, columns, seed)
    reference = make_pipeline(PolynomialFeatures(degree), LinearRegression()).fit(X, y)
    ours = least_squares(degree).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), reference.predict(X), atol=1e-7)


def test_without_a_gram_matrix_the_solution_is_the_same():
    X, y = noisy(2000, 4)
    formed = least_squares(5).fit(X, y)
    # 126 terms: the Gram matrix does not fit below 1 MiB, a pass over the data does.
    matrix_free = least_squares(5, memory_limit=2**20).fit(X, y)
    np.testing.assert_allclose(matrix_free.predict(X), formed.predict(X), atol=1e-8)
    assert np.isnan(matrix_free.coef_table_.standard_error).all()
    assert np.isfinite(formed.coef_table_.standard_error).all()


def test_standard_errors_are_those_of_ordinary_least_squares():
    X, y = noisy(300, 2)
    table = least_squares(2).fit(X, y).coef_table_.set_index("term")
    x1, x2 = X.T
    design = np.column_stack([x1**2, x1 * x2, x2**2, x1, x2, np.ones(300)])
    coefficients, square, *_ = np.linalg.lstsq(design, y)
    errors = np.sqrt(square[0] / 294 * np.diag(np.linalg.inv(design.T @ design)))
    order = ["x1^2", "x1 x2", "x2^2", "x1", "x2", "1"]
    np.testing.assert_allclose(table.coefficient[order], coefficients, rtol=1e-8)
    np.testing.assert_allclose(table.standard_error[order], errors, rtol=1e-8)


def test_intervals_cover_the_truth_as_often_as_they_say():
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(120):
        X = generator.normal(size=(60, 1))
        y = 2 * X[:, 0] ** 2 - X[:, 0] + generator.normal(size=60)
        table = least_squares(2, confidence=0.9).fit(X, y).coef_table_.set_index("term")
        covered += [table.lower[t] <= c <= table.upper[t] for t, c in [("x1^2", 2), ("x1", -1)]]
    assert 0.85 < np.mean(covered) < 0.95


def test_powers_far_from_the_origin_lose_no_digits():
    X, _ = noisy(500, 1, center=2000.0)
    y = (X[:, 0] - 2000) ** 5
    ours = least_squares(5).fit(X, y)
    assert np.abs(ours.predict(X) - y).max() < 1e-9 * np.abs(y).max()
    # The trap: the same fit in plain powers.
    plain = np.vander(X[:, 0], 6)
    coefficients = np.linalg.lstsq(plain, y)[0]
    assert np.abs(plain @ coefficients - y).max() > 1e-3 * np.abs(y).max()


def test_the_written_polynomial_has_the_predicted_values():
    X, _ = noisy(500, 1, center=2000.0)
    y = (X[:, 0] - 2000) ** 5
    ours = least_squares(5).fit(X, y)
    exact = [float(ours.polynomial_.at(row)) for row in X[:20]]
    np.testing.assert_allclose(exact, ours.predict(X[:20]), atol=1e-8 * np.abs(y).max())


def test_the_degree_is_chosen_by_leaving_rows_out():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(400, 2))
    y = X[:, 0] ** 3 - X[:, 1] + 0.5 * generator.normal(size=400)
    assert least_squares("auto").fit(X, y).degree_ == 3
    assert least_squares("auto").fit(X, generator.normal(size=400)).degree_ == 0


def test_leave_one_out_residuals_are_those_of_leaving_out():
    from exactformer.learning.laws.dense.degree import leave_one_out
    from exactformer.learning.laws.dense.least_squares import normal_equations
    from exactformer.learning.laws.dictionary.design import Design
    from exactformer.learning.laws.sample import take_sample

    X, y = noisy(25, 2)
    design = Design.of(take_sample(X, y[:, None], None, ["x1", "x2"]), 2)
    left_out = leave_one_out(design, *normal_equations(design))
    for degree in (1, 2):
        for i in (0, 11, 24):
            rest = np.arange(25) != i
            model = make_pipeline(PolynomialFeatures(degree), LinearRegression())
            miss = y[i] - model.fit(X[rest], y[rest]).predict(X[[i]])[0]
            assert left_out[degree, i, 0] == pytest.approx(miss, rel=1e-8)


def test_generic_directions_lose_nothing():
    X, y = noisy(400, 3)
    everything = least_squares(3).fit(X, y)
    along = least_squares(3, directions=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(along.predict(X), everything.predict(X), atol=1e-7)


def test_few_directions_give_the_best_fit_in_their_span():
    X, y = noisy(400, 3)
    directions = np.array([[1.0, 0, 0], [0, 1, 1]])
    t = X @ directions.T
    design = np.column_stack([np.ones(400), t, t**2, t**3])
    best = design @ np.linalg.lstsq(design, y)[0]
    ours = least_squares(3, directions=directions).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), best, atol=1e-8)


def test_fewer_rows_than_terms_is_an_error_that_says_so():
    X, y = noisy(50, 5)
    with pytest.raises(InputError, match="50 rows cannot determine 56 coefficients"):
        least_squares(3).fit(X, y)


def test_a_column_that_is_a_function_of_another_is_an_error_that_names_the_term():
    X, y = noisy(500, 2)
    X[:, 1] = X[:, 0] ** 2
    with pytest.raises(InputError, match="combination of other terms"):
        least_squares(2).fit(X, y)


def test_a_dictionary_beyond_the_limit_is_refused_before_it_is_built():
    X, y = noisy(10, 60)
    with pytest.raises(SizeError, match=r"869,648,208 terms .* Lower degree="):
        least_squares(7).fit(X, y)


@pytest.mark.slow
def test_all_3003_terms_of_f2():
    X, y, X_test, y_test = f2_sample(0)
    fitted = least_squares(5).fit(X, y)
    assert np.mean((fitted.predict(X_test) - y_test) ** 2) <= 0.12
    assert 0.90 <= fitted.noise_**2 <= 0.95
