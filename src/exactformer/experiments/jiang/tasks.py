"""What figures 4, 5 and 6 of Jiang & Li have in common: a task learnt, and the same task constructed.

One cell trains an ensemble of models that differ by their seeds. The others take the task's own
scores of finite rank, with f and F exact, for growing sharpness λ: what attention of that head size
*can* do. The difference between the two is optimisation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.cell import Cell, Metrics, Parameters
from exactformer.experiments.engine.experiment import Quantity, Scale, Statement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from exactformer.experiments.engine.summary import Summary
    from exactformer.targets import AttentionTask


@dataclass(frozen=True)
class Training:
    """An ensemble of ``models`` and how it is trained; head size m_h, n features, values of d_v."""

    models: int
    steps: int
    batch: int
    rate: float
    sequences: int
    tests: int
    width: int
    features: int = 32
    value_dim: int = 32
    head_dim: int = 32
    gain: float = 3.0
    tied: bool = False


def grid(
    task: Mapping[str, Any], training: Training, sharpness: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the cell of an ensemble, and one of each sharpness."""
    learnt = {"kind": "trained", "task": dict(task), **asdict(training), "seed": 0}
    built = [
        {"kind": "constructed", "task": dict(task), "sharpness": s, "tests": 20_000, "seed": 0}
        for s in sharpness
    ]
    return [learnt, *built]


def run_task(
    task: AttentionTask, parameters: Parameters, device: str, shown: NDArray[Any]
) -> Metrics:
    """Run a cell; ``shown`` is the input whose attention is drawn."""
    from exactformer.experiments.jiang.tasks_training import construct, learn

    if parameters["kind"] == "constructed":
        return construct(task, parameters)
    return learn(task, parameters, device, shown)


ROWS = {
    "mean squared error": ("best_mse", 1.0),
    "median of the seeds' mean squared errors": ("median_mse", 1.0),
    "share of tokens whose largest weight is right": ("best_right", 0.05),
    "share of attention in the wrong place": ("best_misplaced", 1.0),
    "F̂∘f̂ off F∘f, root mean square": ("best_composition_rms", 1.0),
    "F̂∘f̂ off F∘f, largest": ("best_composition_max", 2.0),
}
POOLED = {
    "where several tokens count, share whose largest weight is right": ("best_pooled_right", 0.1),
    "where several tokens count, share of attention in the wrong place": (
        "best_pooled_misplaced",
        1.0,
    ),
}


def rows(cells: Sequence[Parameters], pooled: bool, prefix: str = "trained") -> list[Quantity]:
    """Return the rows of an ensemble's best model, then those of the constructions."""
    where = {"kind": "trained", "task": cells[0]["task"]}
    wanted = ROWS | POOLED if pooled else ROWS
    learnt = [
        Quantity(f"{prefix}, {label}", metric, where, drift=drift)
        for label, (metric, drift) in wanted.items()
    ]
    built = [
        Quantity(
            f"constructed, λ = {cell['sharpness']:g}, mean squared error",
            "mse",
            {"kind": "constructed", "sharpness": cell["sharpness"]},
            drift=1e-3,
        )
        for cell in cells
        if cell["kind"] == "constructed"
    ]
    return learnt + built


def trained(summary: Summary, **where: Any) -> Metrics:
    """Return what came of the ensemble."""
    (cell,) = summary.select(kind="trained", **where)
    return cell.metrics


def constructed(summary: Summary) -> list[Cell]:
    """Return the constructions, the least sharp first."""
    return sorted(summary.select(kind="constructed"), key=lambda cell: cell.parameters["sharpness"])


def at_most(metric: str, limits: Mapping[Scale, float], text: str) -> Statement:
    """State that a metric of the best trained model is at most a limit, by scale."""
    return _limited(metric, limits, text, lambda value, limit: value <= limit)


def at_least(metric: str, limits: Mapping[Scale, float], text: str) -> Statement:
    """State that a metric of the best trained model is at least a limit, by scale."""
    return _limited(metric, limits, text, lambda value, limit: value >= limit)


def _limited(
    metric: str,
    limits: Mapping[Scale, float],
    text: str,
    holds: Callable[[float, float], bool],
) -> Statement:
    def check(summary: Summary) -> bool:
        (first, *_) = summary.select(kind="trained")
        return holds(first.metrics[metric], limits[summary.scale])

    numbers = ", ".join(f"{limits[scale]:g} ({scale})" for scale in Scale)
    return Statement(f"{text}: {numbers}", check)


def within_bounds(summary: Summary) -> bool:
    """Whether no construction is further off than what it leaks, to the rounding of large scores."""
    return all(cell.metrics["beyond"] <= 1e-8 for cell in constructed(summary))


WITHIN_BOUNDS = Statement(
    "no construction is further off than what its softmax leaks", within_bounds, ours=True
)
