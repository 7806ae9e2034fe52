import itertools
import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from exactformer.algebra import Polynomial
from exactformer.errors import InputError, OutsideDomainError
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor, formula
from exactformer.learning.laws.sample import RowLabelsWarning

SOLVERS = [
    {"solver": "sparse"},
    {"solver": "least-squares"},
    {"solver": "least-squares", "directions": 8},
    {"solver": "sgd", "epochs": 80, "learning_rate": (1e-3, 1e-2)},
]


def sample(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 2))
    return X, X[:, 0] ** 2 - 3 * X[:, 0] * X[:, 1] + 1 + 0.1 * generator.normal(size=rows)


@pytest.fixture(params=SOLVERS, ids=lambda p: "-".join(map(str, p.values())))
def regressor(request):
    return PolynomialAttentionRegressor(2, random_state=0, **request.param)


def test_the_same_seed_gives_the_same_bits(regressor):
    X, y = sample()
    first, second = (clone(regressor).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_polynomial_has_the_predicted_values(regressor):
    X, y = sample()
    regressor.fit(X, y)
    np.testing.assert_allclose(regressor.polynomial_.evaluate(X), regressor.predict(X), atol=1e-11)


def test_the_model_is_certified_and_agrees_on_the_data(regressor, tmp_path):
    from exactformer.polynomials.check import load

    X, y = sample()
    regressor.fit(X, y)
    values = regressor.model_(X).detach().numpy()
    bound = regressor.model_.certificate.bound(regressor.model_.dtype)
    np.testing.assert_allclose(values, regressor.predict(X), atol=float(bound) + 1e-11)
    regressor.model_.save(tmp_path / "law.safetensors")
    again = load(tmp_path / "law.safetensors", executor="fused")
    np.testing.assert_array_equal(again(X).detach().numpy(), values)


def test_a_trained_model_keeps_its_own_directions():
    X, y = sample()
    trained = PolynomialAttentionRegressor(
        2, solver="sgd", directions=5, epochs=50, random_state=0
    ).fit(X, y)
    assert trained.model_.blueprint.tokens == 5


def test_a_sparse_law_gets_directions_made_for_it():
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(X, y)
    assert fitted.model_.blueprint.tokens <= 3
    assert PolynomialAttentionRegressor(2, directions="lattice").fit(X, y).model_ is not None


def test_a_fitted_estimator_survives_pickling(regressor):
    X, y = sample()
    regressor.fit(X, y)
    regressor.model_  # noqa: B018  (compiled models are not pickled; the law is)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))
    assert again.model_.blueprint.tokens == regressor.model_.blueprint.tokens


def test_weights_count_repetitions(regressor):
    X, y = sample(60)
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    weighted = clone(regressor).fit(X, y, sample_weight=weight)
    repeated = clone(regressor).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
    assert weighted.noise_ == pytest.approx(repeated.noise_)


def test_several_outputs_are_several_laws(regressor):
    X, y = sample()
    both = clone(regressor).fit(X, np.column_stack([y, X[:, 1]]))
    one = clone(regressor).fit(X, y)
    assert both.predict(X).shape == (300, 2)
    np.testing.assert_allclose(both.predict(X)[:, 0], one.predict(X), atol=1e-10)
    assert both.formula_[0] == one.formula_
    assert len(both.polynomial_) == len(both.to_sympy()) == 2
    assert set(both.coef_table_.output) == {"y1", "y2"}
    values = both.model_(X).detach().numpy()
    bound = float(both.model_.certificate.bound())
    np.testing.assert_allclose(values, both.predict(X), atol=bound + 1e-11)
    assert both.intercept_.shape == both.r2_.shape == (2,)


def test_names_come_from_the_table():
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(pd.DataFrame(X, columns=["mass", "speed"]), y)
    assert list(fitted.feature_names_in_) == ["mass", "speed"]
    assert set(fitted.coef_table_.term) == {"mass^2", "mass speed", "1"}
    assert fitted.polynomial_.variables == ("mass", "speed")


@pytest.mark.parametrize(
    ("names", "variables"),
    [
        (["Mass (kg)", "v"], ["Mass_kg", "v"]),
        (["2x", "y"], ["x_2x", "y"]),
        (["x²", "x2"], ["x2_2", "x2"]),
        (["0", "1"], ["x0", "x1"]),
        (["%", "x1"], ["x1_2", "x1"]),
    ],
)
def test_only_a_name_that_no_formula_can_hold_gets_an_alias(names, variables, tmp_path):
    from exactformer.polynomials.check import load

    X, y = sample()
    frame = pd.DataFrame(X, columns=names)
    fitted = PolynomialAttentionRegressor(2).fit(frame, pd.Series(y, name="Energy (J)"))
    assert fitted.variables_ == variables
    assert fitted.renamed_ == {v: n for v, n in zip(variables, names, strict=True) if v != n}
    assert Polynomial.parse(fitted.formula_, variables).variables == tuple(variables)
    fitted.model_.save(tmp_path / "law.safetensors")
    read = load(tmp_path / "law.safetensors", executor="fused")
    assert (read.columns, read.variables) == (tuple(names), tuple(variables))
    assert read.outputs == ("Energy (J)",)
    turned = frame[names[::-1]]
    assert torch.equal(read(turned), fitted.model_(X))
    assert torch.equal(read(turned.set_axis(variables[::-1], axis=1)), fitted.model_(X))
    assert read.exact(turned.iloc[0]) == read.exact(X[0])
    with pytest.raises(InputError, match="the model the columns"):
        read(frame.set_axis(["a", "b"], axis=1))


def test_an_index_among_the_columns_is_noticed():
    X, y = sample()
    frame = pd.DataFrame({"Unnamed: 0": np.arange(len(X)), "a": X[:, 0], "b": X[:, 1]})
    with pytest.warns(RowLabelsWarning, match="'Unnamed: 0' counts the rows"):
        PolynomialAttentionRegressor(2).fit(frame, y)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PolynomialAttentionRegressor(2).fit(frame.rename(columns={"Unnamed: 0": "t"}), y)
        PolynomialAttentionRegressor(2).fit(frame[::-1], y[::-1])
    assert not [one for one in told if issubclass(one.category, RowLabelsWarning)]


def test_outputs_have_the_names_of_their_table():
    X, y = sample()
    both = PolynomialAttentionRegressor(2).fit(X, pd.DataFrame({"up": y, "down": -y}))
    assert set(both.coef_table_.output) == {"up", "down"}
    assert both.model_.outputs == ("up", "down")
    assert both.path_.output.unique().tolist() == ["up", "down"]
    assert not any("output" in note for note in both.notes_)
    unnamed = PolynomialAttentionRegressor(2).fit(X, np.column_stack([y, -y]))
    assert unnamed.path_.output.unique().tolist() == ["y1", "y2"]
    for X_names, y_names, where in (("ab", ["up"] * 2, "y"), ("aa", ["up", "down"], "X")):
        columns = pd.DataFrame(X, columns=list(X_names))
        with pytest.raises(InputError, match=f"columns of {where} need different names"):
            PolynomialAttentionRegressor(2).fit(columns, pd.DataFrame(X, columns=y_names))


def test_the_model_of_a_law_matches_columns_by_name():
    X, y = sample()
    frame = pd.DataFrame(X, columns=["mass", "speed"])
    model = PolynomialAttentionRegressor(2).fit(frame, y).model_
    assert torch.equal(model(frame[["speed", "mass"]]), model(X))
    with pytest.raises(InputError, match="columns x1, x2, the model the variables mass, speed"):
        model(pd.DataFrame(X, columns=["x1", "x2"]))


@pytest.mark.parametrize("names", [["speed", "mass"], ["x1", "x2"]])
def test_predict_refuses_columns_that_are_not_those_of_fit(names):
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(pd.DataFrame(X, columns=["mass", "speed"]), y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(pd.DataFrame(X, columns=names))


def test_the_formula_parses_and_predicts_as_well_as_the_law():
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(X, y)
    read = Polynomial.parse(fitted.formula_, ["x1", "x2"])
    assert np.abs(read.evaluate(X) - fitted.predict(X)).max() < fitted.noise_ / 50
    assert len(fitted.formula_) < 60


def test_the_formula_far_from_the_origin_keeps_the_digits_it_needs():
    years = np.random.default_rng(0).uniform(1900, 2020, size=(500, 1))
    y = np.sin((years[:, 0] - 1960) / 30) + 0.01 * np.random.default_rng(1).normal(size=500)
    fitted = PolynomialAttentionRegressor(6).fit(years, y)
    read = Polynomial.parse(fitted.formula_, ["x1"])
    worst = max(
        abs(float(read.at(x)) - v) for x, v in zip(years, fitted.predict(years), strict=True)
    )
    assert worst < fitted.noise_ / 50


def test_sympy_holds_the_exact_coefficients():
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(X, y)
    assert Polynomial.from_sympy(fitted.to_sympy(), ["x1", "x2"]) == fitted.polynomial_
    assert isinstance(fitted.to_sympy(), sympy.Expr)


def test_latex_writes_subscripts_powers_and_names():
    X = np.random.default_rng(0).normal(size=(100, 2))
    frame = pd.DataFrame(X, columns=["x1", "speed_max"])
    fitted = PolynomialAttentionRegressor(2).fit(frame, X[:, 1] - 2 * X[:, 0] ** 2)
    assert fitted.latex() == r"-2 x_{1}^{2} + \mathrm{speed\_max}"
    terms, digits = {(1,): Fraction(-1, 10**7)}, {(1,): 3}
    assert formula.latex(terms, digits, ["x_{1}"]) == r"-1 \cdot 10^{-7} x_{1}"
    assert formula.text(terms, digits, ["x1"]) == "-1e-7 x1"


def test_the_table_has_intervals_around_the_coefficients():
    X, y = sample()
    table = PolynomialAttentionRegressor(2).fit(X, y).coef_table_
    assert list(table.columns) == [
        "term",
        "coefficient",
        "standard_error",
        "lower",
        "upper",
        "p_value",
    ]
    assert (table.lower < table.coefficient).all()
    assert (table.coefficient < table.upper).all()
    assert (table.p_value < 0.01).all()


def test_the_range_of_the_data_is_remembered():
    X, y = sample()
    fitted = PolynomialAttentionRegressor(2).fit(X, y)
    np.testing.assert_array_equal(fitted.box_, np.column_stack([X.min(axis=0), X.max(axis=0)]))


@pytest.mark.parametrize("solver", [{"solver": "sparse"}, {"solver": "sgd", "epochs": 20}])
def test_the_model_is_certified_on_the_box_of_the_data(solver):
    X, y = sample()
    X[:, 1] = 1950 + 20 * X[:, 1]
    X = np.column_stack([X, np.full(len(X), 3.0)])
    fitted = PolynomialAttentionRegressor(2, random_state=0, **solver).fit(X, y)
    corners = np.array(list(itertools.product(*fitted.box_)))
    bound = float(fitted.model_.certificate.bound())
    worth = np.abs(fitted.predict(corners)).max()
    np.testing.assert_allclose(
        fitted.model_(corners).detach().numpy(), fitted.predict(corners), atol=bound + 1e-9 * worth
    )
    low, high = fitted.box_.T
    for j, side in enumerate(high - low):
        for end, way in ((low, -1), (high, 1)):
            beyond = X.mean(axis=0)
            beyond[j] = end[j] + way * (0.02 * side or 0.1)
            with pytest.raises(OutsideDomainError):
                fitted.model_(beyond)


def test_pipelines_grids_and_cross_validation():
    X, y = sample()
    pipeline = make_pipeline(StandardScaler(), PolynomialAttentionRegressor(2))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.99
    grid = GridSearchCV(PolynomialAttentionRegressor(solver="least-squares"), {"degree": [1, 2, 3]})
    assert grid.fit(X, y).best_params_["degree"] == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"degree": 0}, "degree=0"),
        ({"degree": 2.5}, "degree=2.5"),
        ({"degree": True}, "degree=True"),
        ({"solver": "magic"}, "choose one of sparse, least-squares, sgd"),
        ({"directions": "any"}, "directions='any'"),
        ({"directions": 5}, "solver='sparse' takes its directions from the terms"),
        ({"directions": 0, "solver": "sgd"}, "at least one is needed"),
        ({"directions": [[1.0]], "solver": "sgd"}, r"must have shape \(n, 2\)"),
        ({"directions": [[0.0, 0.0]], "solver": "sgd"}, "none of them zero"),
        ({"significance": 0}, "significance=0"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"momentum": 2.0, "solver": "sgd"}, "momentum=2.0"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    X, y = sample(20)
    with pytest.raises(InputError, match=message):
        PolynomialAttentionRegressor(**{"degree": 2, **wrong}).fit(X, y)


def test_progress_shows_the_error_and_the_time_left(capsys, monkeypatch):
    clock = itertools.count(0, 10)
    monkeypatch.setattr("exactformer.progress.monotonic", lambda: next(clock))
    X, y = sample()
    PolynomialAttentionRegressor(2, solver="sgd", epochs=10, verbose=True).fit(X, y)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"training: 1 of 10 epochs, train MSE \S+, about 1 min 30 s left", first)
    assert re.fullmatch(r"training: 10 of 10 epochs, train MSE \S+", last)
