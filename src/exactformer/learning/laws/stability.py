"""Stability of a selection: which terms come back from random halves of the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from exactformer.learning.laws.diagnosis import LawWarning
from exactformer.learning.laws.sample import DependentColumnsWarning

if TYPE_CHECKING:
    import pandas as pd


def stability(
    fitted: Any, X: ArrayLike, y: NDArray[np.float64], resamples: int, seed: int
) -> pd.DataFrame:
    """Fit clones of a fitted regressor to halves; return term, share of halves, whether in the law."""
    import pandas as pd

    law = set(fitted.coef_table_.term)
    counts = dict.fromkeys(law, 0)
    generator = np.random.default_rng(seed)
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawWarning)
        warnings.simplefilter("ignore", DependentColumnsWarning)
        for _ in range(resamples):
            half = generator.permutation(len(y))[: len(y) // 2]
            for term in set(clone(fitted).fit(rows[half], y[half]).coef_table_.term):
                counts[term] = counts.get(term, 0) + 1
    found = sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    return pd.DataFrame(
        {
            "term": [term for term, _ in found],
            "share": [count / resamples for _, count in found],
            "in_law": [term in law for term, _ in found],
        }
    )
