"""A fit is called a law only where residuals, rivals and fits of parts of the rows allow it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import exactformer as ef


def noisy(exact: pd.Series, share: float, rng: np.random.Generator) -> pd.Series:
    return exact + share * np.sqrt((exact**2).mean()) * rng.normal(size=len(exact))


@pytest.mark.parametrize("seed", range(4))
def test_a_law_on_centred_columns_is_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (1000, 4)), columns=list("mvuw"))
    law = ef.PolynomialAttentionRegressor(3).fit(
        X, noisy(X.m * (X.v**2 + X.u**2 + X.w**2) / 2, 0.1, rng)
    )
    assert (law.kind_, len(law.coef_table_)) == ("law", 3)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("low", "high"), [(1, 3), (1, 5)])
def test_wrong_terms_on_positive_columns_are_never_called_a_law(
    seed: int, low: float, high: float
) -> None:
    """Columns far from zero, where the search returns many wrong terms with tiny p-values."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(low, high, (1000, 4)), columns=list("mvuw"))
    y = noisy(X.m * (X.v**2 + X.u**2 + X.w**2) / 2, 0.1, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.LawWarning)
        law = ef.PolynomialAttentionRegressor(3).fit(X, y)
    found = set(law.coef_table_.term)
    if law.kind_ == "law":
        assert found <= {"m v^2", "m u^2", "m w^2"}
    else:
        assert law.kind_reason_


def test_a_quotient_is_no_law_of_polynomials() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1, 5, (1000, 3)), columns=list("abc"))
    fitted = ef.PolynomialAttentionRegressor().fit(X, noisy(X.a * X.b / X.c, 0.01, rng))
    assert fitted.kind_ == "approximation"


def test_other_solvers_fit_and_find_no_law() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    fitted = ef.PolynomialAttentionRegressor(2, solver="least-squares").fit(X, X[:, 0] ** 2)
    assert fitted.kind_ == "approximation"
    assert "looks for no law" in fitted.kind_reason_


def test_several_outputs_have_a_kind_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 2))
    Y = np.column_stack([X[:, 0] * X[:, 1], np.exp(2 * X[:, 0]) + 0.1 * rng.normal(size=600)])
    with pytest.warns(ef.LawWarning, match="y2"):
        fitted = ef.PolynomialAttentionRegressor(2).fit(X, Y)
    assert fitted.kind_ == ["law", "approximation"]
    assert "y2" in fitted.kind_reason_[1]
