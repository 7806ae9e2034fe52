"""Learning a law from noisy data: a scikit-learn estimator, training as in the paper, baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exactformer.learning.regressor import PolynomialAttentionRegressor

__all__ = ["PolynomialAttentionRegressor"]


def __getattr__(name: str) -> Any:
    # scikit-learn is imported on first use, so that reading an experiment's name stays quick.
    if name == "PolynomialAttentionRegressor":
        from exactformer.learning.regressor import PolynomialAttentionRegressor

        return PolynomialAttentionRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
