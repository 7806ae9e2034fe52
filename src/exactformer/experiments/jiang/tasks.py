"""Figures 4, 5 and 6 of Jiang & Li: a task learnt, and the same task constructed.

One cell trains an ensemble of models that differ by their seeds. The others take the task's own
scores of finite rank, with f and F exact, for growing sharpness λ: what attention of that head size
*can* do. The difference between the two is optimisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Experiment, Quantity, Scale, Statement, Summary, rows
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)


def task_experiment(
    name: str,
    *,
    task: Mapping[Scale, Mapping[str, Any]],
    training: Mapping[Scale, Training],
    statements: Sequence[Statement],
    sharpness: Sequence[float] = SHARPNESS,
    pooled: bool = True,
    compared: Mapping[str, Mapping[str, Any]] | None = None,
    **about: Any,
) -> Experiment:
    """Return the experiment of one task: an ensemble of models, and the construction by sharpness.

    ``statements`` are those about training; what holds of every construction follows them. ``pooled``
    adds rows for tokens that several others count for. ``compared`` names ensembles that learn the
    task with other options. ``about`` is the rest of the experiment.
    """

    def learnt(scale: Scale, **options: Any) -> dict[str, Any]:
        what = {**task[scale], **options}
        return {"kind": "trained", "task": what, **asdict(training[scale]), "seed": 0}

    def cells(scale: Scale) -> list[dict[str, Any]]:
        built = {"kind": "constructed", "task": dict(task[scale]), "tests": 20_000, "seed": 0}
        return [
            learnt(scale),
            *({**built, "sharpness": value} for value in sharpness),
            *(learnt(scale, **options) for options in (compared or {}).values()),
        ]

    def quantities(scale: Scale) -> list[Quantity]:
        table = ROWS | POOLED if pooled else ROWS
        ours = {"kind": "trained", "task": dict(task[scale])}
        others = {
            words: {"kind": "trained", "task": {**task[scale], **options}}
            for words, options in (compared or {}).items()
        }
        return [
            *rows("trained, {row}", table, where=ours),
            *rows(
                "constructed, λ = {sharpness:g}, mean squared error",
                "mse",
                {"sharpness": sharpness},
                {"kind": "constructed"},
                drift=1e-3,
            ),
            *(
                Quantity(f"trained, {words}, mean squared error", "best_mse", where, drift=1.0)
                for words, where in others.items()
            ),
        ]

    stated = [*statements, WITHIN_BOUNDS, *([EXPONENTIAL] if sharpness is SHARPNESS else [])]
    return Experiment(name, cells=cells, quantities=quantities, statements=stated, **about)


def constructed(summary: Summary) -> list[Cell]:
    """Return the constructions, the least sharp first."""
    return sorted(summary.select(kind="constructed"), key=lambda cell: cell.parameters["sharpness"])


def limited(text: str, least: bool = False, **limit: Mapping[Scale, float]) -> Statement:
    """State that a metric of the best trained model is at most, or at ``least``, a limit by scale."""
    ((metric, limits),) = limit.items()

    def within(summary: Summary) -> bool:
        found, bound = summary.select(kind="trained")[0].metrics[metric], limits[summary.scale]
        return bool(found >= bound if least else found <= bound)

    words = ", ".join(f"{limits[scale]:g} ({scale})" for scale in Scale)
    return Statement(f"{text}: {words}", within)


WITHIN_BOUNDS = Statement(
    "no construction is further off than what its softmax leaks",
    lambda s: all(cell.metrics["beyond"] <= 1e-8 for cell in constructed(s)),
)
"""To the rounding of large scores."""


def _exponential(summary: Summary) -> bool:
    *_, before, last = constructed(summary)
    return bool(last.metrics["largest"] <= 1e-3 * before.metrics["largest"])


EXPONENTIAL = Statement(
    "from λ = 8 to 16 the largest error of the construction falls a thousandfold (e⁸ = 2981)",
    _exponential,
)
