"""Figure 5: centres of gravity, one for each segment of a sequence (equations 57–62).

A prediction token pools the masses of its segment, every other token keeps to itself; F ∘ f is the
norm. Tokens carry the number of their segment, without which no pairwise score gives these weights. The
input drawn has segments of 3 and 5 points, and so its prediction tokens at 0 and 4; the text has 5.
"""

from __future__ import annotations

from collections.abc import Sequence
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

SHOWN_SEED = 5
TASK = {
    Scale.SMOKE: {"tau": 6, "dim": 2},
    Scale.DEFAULT: {"tau": 10, "dim": 2},
    Scale.PAPER: {"tau": 10, "dim": 2},
}
LENGTHS = {6: (2, 2), 10: (3, 5)}
TRAINING = {
    Scale.SMOKE: Training(2, 600, 64, 1e-2, 4000, 1000, 64, 32, 16, 16, tied=True),
    Scale.DEFAULT: Training(2, 3000, 128, 3e-3, 20_000, 4000, 128, 64, tied=True),
    Scale.PAPER: Training(8, 15_000, 256, 3e-3, 200_000, 10_000, 128, 64, tied=True),
}
SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one ensemble, and the construction by sharpness."""
    return grid(TASK[scale], TRAINING[scale], SHARPNESS)


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import CentreOfGravity

    task = CentreOfGravity(**parameters["task"])
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED, LENGTHS[task.tau])[0])


def quantities(scale: Scale) -> Sequence[Quantity]:
    """Return the rows of the table."""
    return rows(cells(scale), pooled=True)


def _exponential(summary: Summary) -> bool:
    *_, before, last = constructed(summary)
    return bool(last.metrics["largest"] <= 1e-3 * before.metrics["largest"])


def figure(summary: Summary) -> Figure:
    """Draw the attention, which points a prediction token pools, F̂ ∘ f̂, and all errors."""
    from exactformer.experiments.jiang.tasks_drawing import norm_contours, task_figure
    from exactformer.experiments.jiang.tasks_relations import segments

    return task_figure(summary, "Centre of gravity, by segments", segments, norm_contours)


EXPERIMENT = Experiment(
    name="jiang-figure-5",
    title="Centres of gravity by segments, learnt by one attention layer",
    claim="Prediction tokens weigh the points of their segment by their masses, other tokens keep to "
    "themselves, and F̂ ∘ f̂ is the norm.",
    source="Jiang & Li 2023, figure 5 and appendix B.1",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=(
        at_least(
            "best_right",
            {Scale.SMOKE: 0.6, Scale.DEFAULT: 0.9, Scale.PAPER: 0.97},
            "the trained model's largest weight is where it should be for at least this share",
        ),
        at_most(
            "best_mse",
            {Scale.SMOKE: 2e-2, Scale.DEFAULT: 2e-3, Scale.PAPER: 1e-4},
            "its mean squared error is at most",
        ),
        at_most(
            "best_composition_rms",
            {Scale.SMOKE: 0.3, Scale.DEFAULT: 0.1, Scale.PAPER: 0.05},
            "F̂∘f̂ is the norm, to a root mean square of",
        ),
        WITHIN_BOUNDS,
        Statement(
            "from λ = 8 to 16 the largest error of the construction falls a thousandfold (e⁸ = 2981)",
            _exponential,
            ours=True,
        ),
    ),
    figure=figure,
)
