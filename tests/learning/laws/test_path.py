"""The path of models from few terms to many, and the law on it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from exactformer.figures import save_figure
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

pytestmark = pytest.mark.filterwarnings("ignore::exactformer.learning.laws.diagnosis.LawWarning")


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


def test_the_path_goes_from_few_terms_to_many_through_the_law(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = X[:, 0] ** 2 - X[:, 1] + X[:, 2] + 0.5 * generator.normal(size=200)
    law = PolynomialAttentionRegressor(2).fit(X, y)
    path = law.path_
    assert list(path.columns) == ["terms", "model", "r2", "held_out_r2", "chosen"]
    (chosen,) = path[path.chosen].itertuples()
    assert chosen.r2 == pytest.approx(law.r2_)
    assert chosen.held_out_r2 < chosen.r2
    assert path.terms.tolist() == list(range(len(path)))
    assert chosen.terms == len(law.coef_table_)
    save_figure(law.plot_path(), tmp_path / "path.png")


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
