"""What a model is trained on, stopped by and tested on: three parts that share nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.recommending.samples import Array, Samples


@dataclass(frozen=True)
class Part:
    """Some sequences: inputs (n, τ, d), outputs (n, P, k)."""

    inputs: Array
    outputs: Array

    @property
    def offset(self) -> Array:
        """Mean outputs (P, k)."""
        return np.asarray(self.outputs.mean(axis=0))

    @property
    def spread(self) -> Array:
        """Standard deviation (k,) of the outputs about their means; 1 where they do not vary."""
        spread = np.sqrt(np.square(self.outputs - self.offset).mean(axis=(0, 1)))
        return np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Parts:
    """Which sequences (N,) train, check when to stop, and test."""

    train: NDArray[np.bool_]
    check: NDArray[np.bool_]
    test: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: Samples, folds: NDArray[np.int64], turn: int) -> Parts:
        """Return fold ``turn`` as test, the next as check, and of the rest what touches neither."""
        count = int(folds.max()) + 1
        test = folds == turn
        check = (folds == (turn + 1) % count) & samples.training(test)
        return cls(samples.training(test | check), check, test)

    def pick(self, samples: Samples) -> tuple[Part, Part, Part]:
        """Return the three parts."""
        train, check, test = (
            Part(samples.inputs[rows], samples.outputs[rows])
            for rows in (self.train, self.check, self.test)
        )
        return train, check, test
