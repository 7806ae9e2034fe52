"""How far a sequence model is from its map: d_p by Monte Carlo, each with its standard error.

    d_p(f, g)^p = E Σ_{r, j} |f(X)_rj − g(X)_rj|^p,    X uniform on the support's cube.

The standard error is that of the mean of the sums, taken through the p-th root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

if TYPE_CHECKING:
    from exactformer.model import SequenceModel

_BATCH = 4096


@dataclass(frozen=True)
class SequenceError:
    """d_p, measured on ``samples`` random inputs, with one standard error."""

    p: int
    value: float
    standard_error: float
    samples: int

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.standard_error:.1g}"

    def to_dict(self) -> dict[str, float]:
        """Return plain data."""
        return {"value": self.value, "standard_error": self.standard_error, "samples": self.samples}


def measure_sequence(
    model: SequenceModel,
    f: Callable[[NDArray[np.float64]], Any],
    samples: int = 20_000,
    seed: int = 0,
    orders: tuple[int, ...] = (1, 2),
    advance: Callable[[int], None] | None = None,
) -> dict[int, SequenceError]:
    """Measure d_p of a model against a map that takes stacks (batch, d, n), for every p in ``orders``.

    ``advance`` is told how many samples are done.
    """
    if samples < 2:
        raise InputError(f"a standard error takes two samples or more, not {samples}")
    low, high = (float(end) for end in model.blueprint.support)
    shape = (model.blueprint.tokens, model.blueprint.dim)
    generator = np.random.default_rng(seed)
    sums: dict[int, list[NDArray[np.float64]]] = {p: [] for p in orders}
    for done in range(0, samples, _BATCH):
        count = min(_BATCH, samples - done)
        x = generator.uniform(low, high, size=(count, *shape))
        wanted = np.swapaxes(np.asarray(f(np.swapaxes(x, 1, 2))), 1, 2)
        away = np.abs(model(x).cpu().numpy() - wanted)
        for p, found in sums.items():
            found.append((away**p).sum(axis=(1, 2)))
        if advance is not None:
            advance(done + count)
    return {p: _root(np.concatenate(found), p) for p, found in sums.items()}


def _root(powers: NDArray[np.float64], p: int) -> SequenceError:
    mean = float(powers.mean())
    deviation = float(powers.std(ddof=1)) / len(powers) ** 0.5
    value = mean ** (1 / p)
    slope = value / (p * mean) if mean else 0.0
    return SequenceError(p, value, deviation * slope, len(powers))
