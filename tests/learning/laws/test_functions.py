"""Functions besides powers: found, written down, and certified on the box of the data."""

import numpy as np
import pandas as pd
import pytest
import sympy

from exactformer.errors import InputError, ToleranceError
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.formula import monomial
from exactformer.learning.laws.functions import build_dictionary
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import take_sample


def sample(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(1, 3, size=(rows, 2))
    return X, 2 * np.sin(X[:, 0]) + X[:, 0] / X[:, 1] + 0.02 * generator.normal(size=rows)


@pytest.fixture(scope="module")
def law():
    frame = pd.DataFrame(sample()[0], columns=["a", "b"])
    return PolynomialAttentionRegressor(2, features=["sin", "1/x"]).fit(frame, sample()[1])


def test_a_ratio_and_a_sine_are_found_with_intervals(law):
    table = law.coef_table_.set_index("term")
    assert set(table.index) == {"sin(a)", "a (1/b)"}
    assert table.lower["sin(a)"] < 2 < table.upper["sin(a)"]
    assert table.lower["a (1/b)"] < 1 < table.upper["a (1/b)"]


def test_the_formula_in_other_notations(law):
    assert r"a \frac{1}{b}" in law.latex()
    assert r"\sin(a)" in law.latex()
    a, b = sympy.symbols("a b")
    value = float(law.to_sympy().subs({a: 2, b: 1.5}))
    assert value == pytest.approx(law.predict(pd.DataFrame({"a": [2.0], "b": [1.5]}))[0])


def test_the_model_is_certified_on_the_box_and_within_the_tolerance(law):
    X, _ = sample()
    frame = pd.DataFrame(X, columns=["a", "b"])
    away = np.abs(law.model_(X).detach().numpy() - law.predict(frame)).max()
    assert away <= law.model_.approximation.error <= law.model_.approximation.tolerance
    assert law.model_.approximation.tolerance == pytest.approx(law.noise_ / 100)
    assert law.model_.certificate.zero_error
    with pytest.raises(InputError):
        law.model_([[0.5, 2.0]])


def test_a_law_with_functions_is_not_a_polynomial(law):
    with pytest.raises(InputError, match="not a polynomial"):
        law.polynomial_  # noqa: B018


def test_a_law_that_needs_no_function_is_a_polynomial_and_compiled_as_one():
    X, _ = sample()
    plain = PolynomialAttentionRegressor(2, features=["exp"]).fit(X, X[:, 0] * X[:, 1])
    assert set(plain.coef_table_.term) == {"x1 x2"}
    assert set(plain.polynomial_.terms()) == {(1, 1)}
    assert plain.model_.approximation is None


def test_a_function_of_ones_own():
    def ramp(x):
        return np.maximum(x - 2, 0.0)

    X, _ = sample()
    law = PolynomialAttentionRegressor(1, features=[ramp]).fit(X, 3 * ramp(X[:, 1]) - 1)
    assert set(law.coef_table_.term) == {"ramp(x2)", "1"}
    x2 = sympy.Symbol("x2")
    assert sympy.Function("ramp")(x2) in law.to_sympy().atoms(sympy.Function("ramp"))
    law.set_params(model_tolerance=3e-9)
    with pytest.raises(ToleranceError, match="not approximated to 3e-09"):
        law.model_  # noqa: B018


def test_a_function_is_left_out_where_it_is_not_continuous():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.uniform(-1, 1, 200), generator.uniform(1, 2, 200)])
    law = PolynomialAttentionRegressor(2, features=["log", "1/x"]).fit(X, np.log(X[:, 1]))
    assert set(law.coef_table_.term) == {"log(x2)"}
    (note,) = [n for n in law.notes_ if n.startswith("functions left out")] or [""]
    assert "log(x1) (not continuous from -" in note
    assert "(1/x1)" in note
    with pytest.raises(InputError, match=r"log is not a finite number at row 0"):
        law.predict([[0.0, -1.0]])


def test_identities_make_no_second_formula():
    """x (1/x) is 1, a root squared is x, cos² is 1 − sin²: no term says it again."""
    X, _ = sample(100)
    table = build_dictionary(["1/x", "sqrt", "sin", "cos"], X, ["a", "b"])
    names = table.names(["a", "b"])
    extended = take_sample(table.extend(X), X[:, :1], None, names)
    terms = Design.of(table.identities(extended), 3).terms
    found = {monomial(alpha, names) for alpha in terms.all_exponents()}
    assert {"a (1/b)", "(1/a) sqrt(a)", "sin(a)^2", "sin(a) cos(a)", "a^3"} <= found
    assert not [t for t in found if "a (1/a)" in t or "sqrt(a)^2" in t or "cos(a)^2" in t]
    assert not [t for t in found if t.startswith("b ") and "(1/b)" in t]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["sinus"], "choose from sin, cos"),
        ([3], "give names or functions"),
        (["sin", "sin"], "sin is given more than once"),
        ([lambda x: 1.0], "should return one value for each"),
        ([lambda x: x - x.mean()], "its own point only"),
        ([lambda x: x / np.abs(x).max()], "its own point only"),
    ],
)
def test_wrong_functions_are_named(features, message):
    with pytest.raises(InputError, match=message):
        PolynomialAttentionRegressor(1, features=features).fit(*sample())
