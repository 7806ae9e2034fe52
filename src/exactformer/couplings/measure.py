"""How far a coupling's model is from its target, measured: by parts that have different causes.

    truncation      the target against itself with ρ cut after m_h terms: what no wider network mends
    interpolation   that against the model in float64: what a larger ff_width mends
    rounding        the model in float64 against the model in its own number format

Parts are distances of neighbours on the way from target to model; they need not add up to the total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Distance:
    """E Σ_t |a_t − b_t| and the mean of |a_t − b_t|², each with its standard error."""

    l1: float
    l1_error: float
    mean_squared: float
    mean_squared_error: float

    @classmethod
    def between(cls, a: Floats, b: Floats) -> Distance:
        """Compare outputs of the same inputs, (samples, τ)."""
        sums, squares = np.abs(a - b).sum(axis=1), ((a - b) ** 2).mean(axis=1)
        root = len(a) ** 0.5
        return cls(
            float(sums.mean()),
            float(sums.std(ddof=1)) / root,
            float(squares.mean()),
            float(squares.std(ddof=1)) / root,
        )


@dataclass(frozen=True)
class MeasuredCouplingError(Distance):
    """The distance of a model from its target on random inputs, and its parts."""

    samples: int
    seed: int
    parts: Mapping[str, Distance]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a table: total and parts."""
        rows = {"total": self, **self.parts}
        lines = [f"measured on {self.samples:,} inputs      E Σ_t |·|            mean square"]
        lines += [
            f"  {name:14}  {d.l1:20.4g} ± {d.l1_error:<8.1g}  {d.mean_squared:8.3g} "
            f"± {d.mean_squared_error:.1g}"
            for name, d in rows.items()
        ]
        return "\n".join(lines)


def measure_error(
    way: Mapping[str, Function], x: Floats, size: int, seed: int
) -> MeasuredCouplingError:
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
        name: Distance.between(outputs[before], outputs[name]) for before, name in pairwise(names)
    }
    total = Distance.between(outputs[names[0]], outputs[names[-1]])
    return MeasuredCouplingError(**asdict(total), samples=len(x), seed=seed, parts=parts)


def _pieces(x: Floats, size: int) -> Iterator[Floats]:
    for start in range(0, len(x), size):
        yield x[start : start + size]
