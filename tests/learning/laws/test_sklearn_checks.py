"""scikit-learn's own checks, for every solver and without exclusions."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

TINY = {"degree": 1, "epochs": 60, "directions": 6, "learning_rate": (1e-2, 1e-1), "clip": 10.0}

ESTIMATORS = [
    PolynomialAttentionRegressor(),
    PolynomialAttentionRegressor(degree=2),
    PolynomialAttentionRegressor(degree=1, features=["sin"], loss="huber"),
    PolynomialAttentionRegressor(solver="least-squares"),
    PolynomialAttentionRegressor(solver="sgd", random_state=0, **TINY),
]


@pytest.mark.spread(120)
@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::exactformer.learning.laws.sample.DependentColumnsWarning")
@pytest.mark.filterwarnings("ignore::exactformer.learning.laws.diagnosis.LawWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)
