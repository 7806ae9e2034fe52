"""Stability of a selection: which terms come back from random halves of the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from exactformer.errors import InputError
from exactformer.learning.laws.diagnosis import LawWarning
from exactformer.learning.laws.sample import DependentColumnsWarning

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 4


def stability(fitted: Any, X: Any, y: Any, resamples: int, seed: int) -> pd.DataFrame:
    """Fit clones of a fitted regressor to halves; return term, share of halves, whether in the law.

    The terms of several outputs are counted apart.
    """
    import pandas as pd

    keys = [key for key in ("output", "term") if key in fitted.coef_table_]

    def terms(law: Any) -> set[tuple[str, ...]]:
        return set(law.coef_table_[keys].itertuples(index=False, name=None))

    if resamples < 1 or len(y) < _FEWEST:
        raise InputError(
            f"resamples={resamples} of {len(y)} rows: give at least one resample of at least "
            f"{_FEWEST} rows"
        )
    law = terms(fitted)
    counts = dict.fromkeys(law, 0)
    generator = np.random.default_rng(seed)
    columns, targets = (part.iloc if hasattr(part, "iloc") else np.asarray(part) for part in (X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LawWarning)
        warnings.simplefilter("ignore", DependentColumnsWarning)
        for _ in range(resamples):
            half = generator.permutation(len(y))[: len(y) // 2]
            for term in terms(clone(fitted).fit(columns[half], targets[half])):
                counts[term] = counts.get(term, 0) + 1
    found = sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    table = pd.DataFrame([term for term, _ in found], columns=keys)
    return table.assign(
        share=[count / resamples for _, count in found], in_law=[term in law for term, _ in found]
    )
