"""How far a coupling's model is from its target, measured: by parts that have different causes.

    truncation      the target against itself with ρ cut after m_h terms: what no wider network mends
    interpolation   that against the model in float64: what a larger ff_width mends
    rounding        the model in float64 against the model in its own number format

Parts are distances of neighbours on the way from target to model; they need not add up to the total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from exactformer.core.certificate import Measured

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
NORM = "E Σ_t |H_t − Ĥ_t|"


@dataclass(frozen=True, kw_only=True)
class MeasuredCoupling(Measured):
    """The distance of outputs on random inputs, its parts, and the mean of their squared difference."""

    mean_squared: float
    """Over tokens and inputs."""
    mean_squared_error: float
    """Its standard error."""

    @classmethod
    def between(
        cls, a: Floats, b: Floats, seed: int, parts: Mapping[str, MeasuredCoupling] | None = None
    ) -> MeasuredCoupling:
        """Compare outputs of the same inputs, (samples, τ)."""
        sums, squares = np.abs(a - b).sum(axis=1), ((a - b) ** 2).mean(axis=1)
        root = len(a) ** 0.5
        return cls(
            float(sums.mean()),
            float(sums.std(ddof=1)) / root,
            len(a),
            seed,
            NORM,
            parts or {},
            mean_squared=float(squares.mean()),
            mean_squared_error=float(squares.std(ddof=1)) / root,
        )


def measure_error(way: Mapping[str, Function], x: Floats, size: int, seed: int) -> MeasuredCoupling:
    """Measure along a way from target to model.

    Args:
        way: functions (batch, τ) → (batch, τ), the target first under any name, then each stage under
            the name of the part that leads to it.
        x: the inputs, (samples, τ).
        size: inputs at a time.
        seed: of the inputs, for the record.
    """
    names = list(way)
    outputs = {name: np.concatenate([way[name](part) for part in _pieces(x, size)]) for name in way}
    parts = {
        name: MeasuredCoupling.between(outputs[before], outputs[name], seed)
        for before, name in pairwise(names)
    }
    return MeasuredCoupling.between(outputs[names[0]], outputs[names[-1]], seed, parts)


def _pieces(x: Floats, size: int) -> Iterator[Floats]:
    for start in range(0, len(x), size):
        yield x[start : start + size]
