"""The trained solver: the transformer of Theorem 3.5, with F, β and b found by gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from exactformer.learning.laws.dense.directions import paper_width, unit_directions
from exactformer.learning.laws.dense.solvers import Degree, Solved, best_degree, data_ranges
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import check_size
from exactformer.learning.laws.law import Law, RidgeLaw
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.trained.network import PolynomialAttention, can_compile
from exactformer.learning.laws.trained.training import (
    DivergenceError,
    History,
    Points,
    Progress,
    TrainingProtocol,
    train,
)


@dataclass(frozen=True)
class Setting:
    """Where and how to train; ``rescale`` divides columns by their size and the target by its own.

    Only the size: F has no bias, so a shift of the columns would leave the form of the theorem.
    """

    protocol: TrainingProtocol
    seed: int
    device: str = "cpu"
    rescale: bool = True
    checkpoint: str | None = None
    report: Callable[[Progress], None] | None = None


def solve_descent(
    sample: Sample, degree: Degree, directions: Array | int | None, setting: Setting, limit: int
) -> Solved:
    """Train one model for each output."""
    degree = best_degree(sample, degree)
    laws: list[Law] = []
    for output, data_range in enumerate(data_ranges(sample)):
        units = _Units.of(sample, output, setting.rescale)
        start = _start(directions, degree, units, setting.seed)
        batch = min(setting.protocol.batch_size, len(sample.X))
        check_size(len(start), 8 * 3 * len(start) * batch, limit, "one batch")
        network, history = _trained(sample, output, degree, start, units, setting)
        if history.diverged:
            raise DivergenceError(
                f"training left the finite numbers after {len(history.train_mse)} epochs; "
                f"lower clip= (now {setting.protocol.clip}) or learning_rate="
            )
        F, beta, b = units.undo(*(p.detach().double().cpu().numpy() for p in network.parameters()))
        freedom = sample.size - network.free_parameters
        variance = history.train_mse[-1] * units.target**2
        laws.append(RidgeLaw(data_range, freedom, variance, F, beta, b))
    return Solved(laws, degree)


@dataclass(frozen=True)
class _Units:
    """What columns and target are measured in."""

    columns: Array
    target: float
    offset: float

    @classmethod
    def of(cls, sample: Sample, output: int, rescale: bool) -> _Units:
        if not rescale:
            return cls(np.ones(sample.X.shape[1]), 1.0, 0.0)
        share = sample.weight / sample.size
        y = sample.Y[:, output]
        offset = float(share @ y)
        spread = float(np.sqrt(share @ (y - offset) ** 2))
        return cls(np.sqrt(share @ sample.X**2), spread or 1.0, offset)

    def undo(self, F: Array, beta: Array, b: Array) -> tuple[Array, Array, float]:
        """Return the parameters that act on the user's own units."""
        return F / self.columns, beta * self.target, float(b) * self.target + self.offset


def _start(directions: Array | int | None, degree: int, units: _Units, seed: int) -> Array:
    if isinstance(directions, np.ndarray):
        return directions * units.columns  # given in the user's units, as F is handed back
    columns = len(units.columns)
    count = paper_width(columns, degree) if directions is None else directions
    return unit_directions(count, columns, np.random.default_rng(seed))


def _trained(
    sample: Sample, output: int, degree: int, start: Array, units: _Units, setting: Setting
) -> tuple[PolynomialAttention, History]:
    device = torch.device(setting.device)
    # A processor has no use for float32 here; an accelerator does, as the paper's runs did.
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    directions = torch.as_tensor(start, dtype=dtype, device=device)
    network = PolynomialAttention(directions, degree, compiled=can_compile(device))
    points = Points(
        torch.as_tensor(sample.X / units.columns),
        torch.as_tensor((sample.Y[:, output] - units.offset) / units.target),
        torch.as_tensor(sample.weight) if np.ptp(sample.weight) else None,
    )
    path = None if setting.checkpoint is None else Path(f"{setting.checkpoint}.{output}")
    history = train(
        network,
        points,
        setting.protocol,
        seed=setting.seed,
        checkpoint=path,
        report=setting.report,
    )
    return network, history
