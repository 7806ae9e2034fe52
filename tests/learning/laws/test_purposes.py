"""Discovery and prediction: few certain terms, or the least held-out error; and the path between."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from exactformer.figures import save_figure
from exactformer.learning.laws.held_out.prediction import fold_of_each_row
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import take_sample

pytestmark = pytest.mark.filterwarnings("ignore::exactformer.learning.laws.diagnosis.LawWarning")


def predictor(**options):
    return PolynomialAttentionRegressor(purpose="prediction", **options)


def lorenz(step):
    """Return states of the Lorenz system and central differences of them."""
    from scipy.integrate import solve_ivp

    def slope(_, s):
        x, y, z = s
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    time = np.arange(0, 10, step)
    states = solve_ivp(slope, (0, 10), [-8, 7, 27], t_eval=time, rtol=1e-10, atol=1e-10).y.T
    return states[1:-1], (states[2:] - states[:-2]) / (2 * step)


def test_clean_differences_collect_no_tiny_terms():
    X, slopes = lorenz(0.002)
    law = PolynomialAttentionRegressor(3).fit(X, slopes)
    supports = [set(table.term) for _, table in law.coef_table_.groupby("output")]
    assert supports == [{"x1", "x2"}, {"x1 x3", "x1", "x2"}, {"x1 x2", "x3"}]
    tiny = PolynomialAttentionRegressor(3, relevance=0).fit(X, slopes)
    assert len(tiny.coef_table_) > len(law.coef_table_)
    assert any("too small to matter" in note for note in law.notes_)


def test_prediction_keeps_weak_terms_that_discovery_drops():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 20))
    y = 0.2 * X.sum(axis=1) + generator.normal(size=600)
    train, test = slice(0, 300), slice(300, 600)
    scores = [
        PolynomialAttentionRegressor(purpose=purpose)
        .fit(X[train], y[train])
        .score(X[test], y[test])
        for purpose in ("discovery", "prediction")
    ]
    assert scores[1] > scores[0]
    assert scores[1] > LinearRegression().fit(X[train], y[train]).score(X[test], y[test]) - 0.01


# LassoCV, the peer, does not converge at its weakest strengths.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_prediction_is_as_good_as_linear_and_lasso_on_diabetes():
    X, y = load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    lasso = make_pipeline(PolynomialFeatures(2), StandardScaler(), LassoCV())
    ours, *peers = (
        cross_val_score(model, X, y, cv=folds).mean()
        for model in (predictor(), LinearRegression(), lasso)
    )
    assert ours > max(peers) - 0.01


def test_a_shrunk_law_is_a_polynomial_with_a_certified_model():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(80, 2))
    y = X @ [1, 0.5] + 0.5 * X[:, 0] * X[:, 1] + 0.5 * generator.normal(size=80)
    law = predictor(degree=2).fit(X, y)
    np.testing.assert_allclose(law.polynomial_.evaluate(X), law.predict(X), atol=1e-9)
    assert law.model_.certificate.zero_error
    assert law.coef_table_.standard_error.isna().all() or law.coef_table_.p_value.max() < 0.01


def test_where_a_sparse_law_is_best_prediction_returns_it_with_intervals():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 3))
    y = 3 * X[:, 0] ** 2 * X[:, 1] - X[:, 2] + 0.1 * generator.normal(size=300)
    law = predictor(degree=3).fit(X, y)
    assert set(law.coef_table_.term) == {"x1^2 x2", "x3"}
    assert law.coef_table_.standard_error.notna().all()


def test_equal_rows_share_a_fold_and_order_has_no_say():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 2)).repeat(2, axis=0)
    y = X[:, :1]
    names = ["x1", "x2"]
    fold = fold_of_each_row(take_sample(X, y, None, names), 0)
    assert (fold[::2] == fold[1::2]).all()
    order = generator.permutation(80)
    shuffled = fold_of_each_row(take_sample(X[order], y[order], None, names), 0)
    np.testing.assert_array_equal(shuffled, fold[order])


@pytest.mark.parametrize("purpose", ["discovery", "prediction"])
def test_the_path_goes_from_few_terms_to_many_through_the_law(purpose, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = X[:, 0] ** 2 - X[:, 1] + X[:, 2] + 0.5 * generator.normal(size=200)
    law = PolynomialAttentionRegressor(2, purpose=purpose).fit(X, y)
    path = law.path_
    assert list(path.columns) == ["terms", "model", "r2", "held_out_r2", "chosen"]
    assert path.terms.is_monotonic_increasing or purpose == "prediction"
    (chosen,) = path[path.chosen].itertuples()
    assert chosen.r2 == pytest.approx(law.r2_)
    assert chosen.held_out_r2 < chosen.r2
    if purpose == "discovery":
        assert path.terms.tolist() == list(range(len(path)))
        assert chosen.terms == len(law.coef_table_)
    save_figure(law.plot_path(), tmp_path / "path.png")


def test_the_path_of_a_mixture_names_all_columns_where_one_is_unused():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    X[:, 1] = 7.0
    y = X @ [1, 0, 0.5] + generator.normal(size=60)
    law = predictor(degree=2).fit(X, y)
    assert law.coef_table_.standard_error.isna().all()  # a mixture, not the sparse law
    assert law.path_.model.str.contains("x3").any()
    assert not law.path_.model.str.contains("x2").any()


def test_prediction_where_a_column_is_constant_without_one_fold():
    X = np.zeros((12, 1))
    X[0] = 1.0
    y = np.random.default_rng(0).normal(size=12) + 5 * X[:, 0]
    assert np.isfinite(predictor(degree=1).fit(X, y).predict(X)).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [7, 11])
def test_held_out_errors_of_the_path_survive_nearly_dependent_terms(seed):
    """sin x and low powers of x are all but dependent: leverages must not be differences of these."""
    generator = np.random.default_rng(seed)
    X = np.repeat(generator.normal(size=(100, 2)), 4, axis=0)
    y = X[:, 0] * X[:, 1] ** 3 + X[:, 0] - X[:, 1] + 1e-3 * generator.normal(size=400)
    path = PolynomialAttentionRegressor(features=["sin"]).fit(X, y).path_
    assert (path.held_out_r2[path.r2 > 0.9999] > 0.9999).all()


def test_held_out_errors_of_the_path_are_those_of_leaving_rows_out():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 1))
    y = 2 * X[:, 0] + 1 + 0.3 * generator.normal(size=30)
    path = PolynomialAttentionRegressor(2).fit(X, y).path_
    (chosen,) = path[path.chosen].itertuples()
    assert chosen.model == "x1 + 1"
    left = [
        y[i] - LinearRegression().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0]
        for i in range(30)
    ]
    assert chosen.held_out_r2 == pytest.approx(1 - np.mean(np.square(left)) / np.var(y))
