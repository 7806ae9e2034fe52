"""Figure 3: how fast the three networks converge on f₂*, and how well they generalise.

These are the very runs of table 1, seen over the epochs. The generalisation gap is taken between
errors of one kind: noisy labels unseen against noisy labels trained on.
"""

from collections.abc import Sequence
from functools import partial

from exactformer.experiments import Cell, Experiment, Metric, Quantity, Scale, Summary, rows
from exactformer.experiments.fang.cell import NETWORKS, network_cells, run
from exactformer.experiments.fang.names import LABELS, named
from exactformer.experiments.fang.table_1 import EPOCHS, SEEDS, SIZES

OTHERS = ("depth", "width")
END, GAP = "training error at the end", "generalisation gap"


def gap(cells: Sequence[Cell]) -> float:
    """Return |test − train|, both on noisy labels, after the last epoch."""
    (cell,) = cells
    return abs(float(cell.metrics["test_noisy"]) - float(cell.metrics["train"]))


def last_above(model: str, cells: Sequence[Cell]) -> float:
    """Return the last epoch seen at which attention is not below where ``model`` ends."""
    found = {str(cell.parameters["model"]): cell for cell in cells}
    end, curve = found[model].metrics["train"], found["attention"].metrics["curve"]
    pairs = zip(curve["epoch"], curve["train"], strict=True)
    return float(max((epoch for epoch, error in pairs if not error < end), default=0))


def _passed(model: str) -> str:
    return f"ATTENTION, last epoch above the end of {LABELS[model]}"


def quantities(scale: Scale) -> list[Quantity]:
    """Return what the curves show as numbers."""
    table: dict[str, Metric] = {END: "train", GAP: gap, EPOCHS: "converged"}
    return [
        *rows("{model}, {row}", table, {"model": named(NETWORKS)}, drift=0.05),
        *(Quantity(_passed(m), partial(last_above, m), {}, drift=0.05) for m in OTHERS),
    ]


EXPERIMENT = Experiment(
    name="fang-figure-3",
    title="Convergence and generalisation gap of three networks learning f₂*",
    claim="The transformer converges to the noise, and its training error says how it will do on "
    "new data; networks with as many free parameters do neither.",
    source="Fang et al. 2022, Figure 3",
    cells=lambda scale: network_cells(SIZES[scale], SEEDS[scale]),
    run=run,
    quantities=quantities,
    figure="exactformer.experiments.fang.drawing:figure_3",
    shares="fang-table-1",
)


@EXPERIMENT.states(
    "on every seed attention is below where either network ends, for good, after nine "
    "tenths of training"
)
def _(summary: Summary) -> bool:
    epochs = SIZES[summary.scale].epochs
    return all(max(summary.row(_passed(model)).values) < 0.9 * epochs for model in OTHERS)


@EXPERIMENT.states("attention has the smallest generalisation gap")
def _(summary: Summary) -> bool:
    gaps = {model: summary[f"{LABELS[model]}, {GAP}"] for model in NETWORKS}
    return gaps["attention"] < min(gaps["depth"], gaps["width"])


@EXPERIMENT.states("on average over seeds attention converges in fewer epochs than either network")
def _(summary: Summary) -> bool | None:
    if summary.scale is Scale.SMOKE:
        return None
    epochs = {model: summary[f"{LABELS[model]}, {EPOCHS}"] for model in NETWORKS}
    return epochs["attention"] < min(epochs["depth"], epochs["width"])
