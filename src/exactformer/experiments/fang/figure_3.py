"""Figure 3: how fast the three networks converge on f₂*, and how well they generalise.

These are the very runs of table 1, seen over the epochs. The generalisation gap is taken between
errors of one kind: noisy labels unseen against noisy labels trained on.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.fang.f2 import SIZES, network_cells
from exactformer.experiments.fang.learning import run
from exactformer.experiments.fang.names import LABELS, better
from exactformer.experiments.fang.networks import NETWORKS
from exactformer.experiments.fang.table_1 import EPOCHS, NOTES, PRINTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def quantities(scale: Scale) -> Iterator[Quantity]:
    """Yield what the curves show as numbers."""
    for model in NETWORKS:
        where = {"model": model}
        yield Quantity(f"{LABELS[model]}, {END}", "train", where, drift=0.05)
        yield Quantity(f"{LABELS[model]}, {GAP}", gap, where, drift=0.05)
        label = f"{LABELS[model]}, {EPOCHS}"
        if scale is Scale.PAPER and (model, EPOCHS) in PRINTED:
            printed, within = PRINTED[model, EPOCHS]
            yield Quantity(
                label,
                "converged",
                where,
                printed,
                "Table 1",
                better(model),
                within,
                NOTES[EPOCHS],
                0.05,
            )
        else:
            yield Quantity(label, "converged", where, drift=0.05)
    for model in OTHERS:
        yield Quantity(_passed(model), partial(last_above, model), {}, drift=0.05)


def _passes_early(summary: Summary) -> bool:
    epochs = SIZES[summary.scale].epochs
    return all(max(summary.row(_passed(model)).values) < 0.9 * epochs for model in OTHERS)


def _least_gap(summary: Summary) -> bool:
    gaps = {model: summary[f"{LABELS[model]}, {GAP}"] for model in NETWORKS}
    return gaps["attention"] < min(gaps["depth"], gaps["width"])


def figure(summary: Summary) -> "Figure":
    """Draw training error, clean test error and generalisation gap over the epochs."""
    from exactformer.experiments.fang.figure_3_drawing import figure_3

    return figure_3(summary)


EXPERIMENT = Experiment(
    name="fang-figure-3",
    title="Convergence and generalisation gap of three networks learning f₂*",
    claim="The transformer converges to the noise, and its training error says how it will do on "
    "new data; networks with as many free parameters do neither.",
    source="Fang et al. 2022, Figure 3",
    cells=network_cells,
    run=run,
    quantities=lambda scale: tuple(quantities(scale)),
    statements=(
        Statement(
            "on every seed attention is below where either network ends, for good, after nine "
            "tenths of training",
            _passes_early,
        ),
        Statement("attention has the smallest generalisation gap", _least_gap),
    ),
    figure=figure,
    shares="fang-table-1",
)
