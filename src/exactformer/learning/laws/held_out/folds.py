"""Folds for cross-validation: equal rows share a fold, and the order of the rows has no say.

A weight counts repetitions, so a row of weight two and the same row twice must be judged alike:
rows are put into a canonical order, equal ones made one, and these are dealt out at random.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.sample import Sample

FOLDS = 5


def fold_of_each_row(sample: Sample, seed: int) -> NDArray[np.int64]:
    """Return a fold from 0 to ``FOLDS`` − 1 for each row."""
    whole = np.column_stack([sample.X, sample.Y])
    _, place = np.unique(whole, axis=0, return_inverse=True)
    count = int(place.max()) + 1
    dealt = np.random.default_rng(seed).permutation(count) % min(FOLDS, count)
    return np.asarray(dealt[place.ravel()], dtype=np.int64)


def part(sample: Sample, rows: NDArray[np.bool_]) -> Sample:
    """Return some rows of a sample, with the same columns."""
    return replace(sample, X=sample.X[rows], Y=sample.Y[rows], weight=sample.weight[rows])
