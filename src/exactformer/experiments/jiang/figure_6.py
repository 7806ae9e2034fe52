"""Figure 6: averages over the tokens that a token names (equations 63–66).

Token t carries a vector and k = 3 indices; the answer is the mean of the vectors named, so attention is
{0, 1/3, 2/3, 1}. It is learnt with indices as unit vectors, and for comparison as the numbers the
text's R^(d+k) has. The input drawn has the indices of equation (66).
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

SHOWN_SEED = 3
TASK = {
    Scale.SMOKE: {"tau": 4, "dim": 1, "k": 2},
    Scale.DEFAULT: {"tau": 8, "dim": 2, "k": 3},
    Scale.PAPER: {"tau": 8, "dim": 2, "k": 3},
}
TRAINING = {
    Scale.SMOKE: Training(2, 600, 64, 1e-2, 4000, 1000, 32, 16, 16, 8),
    Scale.DEFAULT: Training(2, 2500, 128, 5e-3, 20_000, 4000, 128),
    Scale.PAPER: Training(8, 15_000, 256, 3e-3, 200_000, 10_000, 128),
}
SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return an ensemble of each code of the indices, and the construction by sharpness."""
    task, training = TASK[scale], TRAINING[scale]
    units = grid(task | {"unit_indices": True}, training, SHARPNESS)
    return [*units, *grid(task | {"unit_indices": False}, training, ())]


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import EQUATION_66, AverageBySelection

    task = AverageBySelection(**parameters["task"])
    printed = EQUATION_66 if (task.tau, task.k) == (8, 3) else None
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED, printed)[0])


def quantities(scale: Scale) -> Sequence[Quantity]:
    """Return the rows of the table."""
    *first, numbers = cells(scale)
    return [
        *rows(first, pooled=True),
        Quantity(
            "trained, indices as numbers, mean squared error",
            "best_mse",
            {"kind": "trained", "task": numbers["task"]},
            drift=1.0,
        ),
    ]


def _exponential(summary: Summary) -> bool:
    *_, before, last = constructed(summary)
    return bool(last.metrics["largest"] <= 1e-3 * before.metrics["largest"])


def _units_first(summary: Summary) -> bool:
    units, numbers = (cell.metrics["best_mse"] for cell in summary.select(kind="trained"))
    return bool(units < numbers)


def figure(summary: Summary) -> Figure:
    """Draw the attention, the graph of outputs and inputs, F̂ ∘ f̂, and all errors."""
    from exactformer.experiments.jiang.tasks_drawing import identity_scatter, task_figure
    from exactformer.experiments.jiang.tasks_relations import selections

    return task_figure(summary, "Average by selection", selections, identity_scatter)


EXPERIMENT = Experiment(
    name="jiang-figure-6",
    title="Averages by selection, learnt by one attention layer",
    claim="Attention is how often a token is named, over k, and F̂ ∘ f̂ is (v, s) ↦ v.",
    source="Jiang & Li 2023, figure 6 and appendix B.1",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=(
        at_least(
            "best_right",
            {Scale.SMOKE: 0.8, Scale.DEFAULT: 0.97, Scale.PAPER: 0.999},
            "the trained model's largest weight is on a token named most for at least this share of "
            "tokens",
        ),
        at_most(
            "best_misplaced",
            {Scale.SMOKE: 0.2, Scale.DEFAULT: 0.1, Scale.PAPER: 0.02},
            "the share of its attention in the wrong place is at most",
        ),
        at_most(
            "best_composition_rms",
            {Scale.SMOKE: 0.2, Scale.DEFAULT: 0.1, Scale.PAPER: 0.05},
            "F̂∘f̂ is (v, s) ↦ v, to a root mean square of",
        ),
        Statement(
            "indices as unit vectors are learnt better than as numbers", _units_first, ours=True
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
