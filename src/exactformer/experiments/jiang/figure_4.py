"""Figure 4: the nearest of six points, learnt by one attention layer (equations 54–56).

Tokens are pairs (u, v), and the answer to u is the nearest v. The hard-max of the target jumps where
two points are as near; softmax does not, and the constructed scores −λ|u − v|² of head size d + 1 show
what that costs: a mean squared error of order 1/λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.cell import Metrics, Parameters
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.jiang.tasks import (
    WITHIN_BOUNDS,
    Training,
    at_least,
    at_most,
    constructed,
    grid,
    rows,
    run_task,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

SHOWN_SEED = 515  # points that lie well apart, so that the drawing can be read
TASK = {
    Scale.SMOKE: {"tau": 3, "dim": 1},
    Scale.DEFAULT: {"tau": 6, "dim": 2},
    Scale.PAPER: {"tau": 6, "dim": 2},
}
TRAINING = {
    Scale.SMOKE: Training(2, 600, 64, 1e-2, 4000, 1000, 32, 16, 16, 8),
    Scale.DEFAULT: Training(2, 3000, 128, 5e-3, 20_000, 4000, 128),
    Scale.PAPER: Training(8, 20_000, 256, 5e-3, 200_000, 10_000, 128),
}
SHARPNESS = (10.0, 100.0, 1e3, 1e4)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one ensemble, and the construction by sharpness."""
    return grid(TASK[scale], TRAINING[scale], SHARPNESS)


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import NearestPoint

    task = NearestPoint(**parameters["task"])
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED)[0])


def quantities(scale: Scale) -> Sequence[Quantity]:
    """Return the rows of the table."""
    return rows(cells(scale), pooled=False)


def _order_one(summary: Summary) -> bool:
    found = [cell for cell in constructed(summary) if cell.parameters["sharpness"] >= 100]
    first, last = found[0], found[-1]
    decades = log(last.parameters["sharpness"] / first.parameters["sharpness"])
    return abs(log(last.metrics["mse"] / first.metrics["mse"]) / decades + 1) <= 0.2


def figure(summary: Summary) -> Figure:
    """Draw the attention, who is connected with whom, F̂ ∘ f̂, and all errors."""
    from exactformer.experiments.jiang.tasks_drawing import identity_scatter, task_figure
    from exactformer.experiments.jiang.tasks_relations import nearest_points

    return task_figure(summary, "Nearest point to a set", nearest_points, identity_scatter)


EXPERIMENT = Experiment(
    name="jiang-figure-4",
    title="The nearest point of a set, learnt by one attention layer",
    claim="Attention finds the nearest point, and F̂ ∘ f̂ is (u, v) ↦ v.",
    source="Jiang & Li 2023, figure 4 and appendix B.1",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=(
        at_least(
            "best_right",
            {Scale.SMOKE: 0.8, Scale.DEFAULT: 0.9, Scale.PAPER: 0.97},
            "the trained model's largest weight is on the nearest point for at least this share of u",
        ),
        at_most(
            "best_mse",
            {Scale.SMOKE: 2e-2, Scale.DEFAULT: 5e-3, Scale.PAPER: 1e-3},
            "its mean squared error is at most",
        ),
        at_most(
            "best_composition_rms",
            {Scale.SMOKE: 0.2, Scale.DEFAULT: 0.05, Scale.PAPER: 0.02},
            "F̂∘f̂ is (u, v) ↦ v, to a root mean square of",
        ),
        WITHIN_BOUNDS,
        Statement("the constructed error falls like 1/λ, exponent −1 ± 0.2", _order_one, ours=True),
    ),
    figure=figure,
)
