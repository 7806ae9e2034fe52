"""Table 1: f₂* learnt by the transformer of Theorem 3.5 and by two networks of its size.

Beside the paper's three models, least squares over all monomials and the sparse solver learn from
the same samples. Every error says which labels it is taken on, and the clipping threshold, which
the paper does not state, has rows of its own.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.fang.f2 import (
    SIZES,
    Cells,
    clipping_cells,
    network_cells,
    solver_cells,
)
from exactformer.experiments.fang.learning import SOLVERS, run
from exactformer.experiments.fang.names import (
    ERRORS,
    LABELS,
    NOISY,
    TEST,
    TRAIN,
    better,
    clip_name,
)
from exactformer.experiments.fang.networks import NETWORKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS, MINUTES, SUPPORT = "epochs to convergence", "minutes", "exact support, share of seeds"

# (model, row) -> (printed, relative tolerance). The row of NN_depth is damaged in the text we have.
PRINTED = {
    ("attention", TRAIN): (0.938, 0.07),
    ("attention", TEST): (0.109, 0.35),
    ("attention", EPOCHS): (212.0, 0.5),
    ("attention", MINUTES): (1.9, math.inf),
    ("depth", TRAIN): (5.99, 0.5),
    ("depth", MINUTES): (7.0, math.inf),
    ("width", TRAIN): (50.28, 0.5),
    ("width", TEST): (35.66, 0.5),
    ("width", EPOCHS): (329.0, 0.5),
    ("width", MINUTES): (2.1, math.inf),
}
CHOICE = (
    "The threshold of clipping, 1000, was chosen on these seeds for its convergence; 300 gave 0.093, "
    "and 3000 blew up in mid-training (0.498, one seed)."
)
NOTES = {
    TEST: "Heavy tails: a few points far out carry most of a network's error, so that the spread "
    "exceeds the mean and agreement says little.",
    EPOCHS: "The first epoch whose training error is within 0.01 of the one before; all epochs if "
    "there is none. It moves with the threshold of clipping.",
    MINUTES: "The published value is for one A100 GPU.",
}


def cells(scale: Scale) -> Cells:
    """Return networks by the protocol, solvers, and networks with other thresholds."""
    return [*network_cells(scale), *solver_cells(scale), *clipping_cells(scale)]


def quantities(scale: Scale) -> Iterator[Quantity]:
    """Yield the table row by row; print belongs to the paper's own sizes alone."""
    size = SIZES[scale]
    for model in NETWORKS:
        where = {"model": model, "clip": size.clip}
        for row, metric in {**ERRORS, EPOCHS: "converged", MINUTES: "minutes"}.items():
            drift = math.inf if row == MINUTES else 0.05
            label = f"{LABELS[model]}, {row}"
            if scale is Scale.PAPER and (model, row) in PRINTED:
                printed, within = PRINTED[model, row]
                note = CHOICE if (model, row) == ("attention", TEST) else NOTES.get(row, "")
                yield Quantity(
                    label, metric, where, printed, "Table 1", better(model), within, note, drift
                )
            else:
                yield Quantity(label, metric, where, drift=drift)
    for model in SOLVERS:
        for row, metric in {**ERRORS, MINUTES: "minutes"}.items():
            drift = math.inf if row == MINUTES else 1e-4
            yield Quantity(f"{LABELS[model]}, {row}", metric, {"model": model}, drift=drift)
    yield Quantity(f"sparse, {SUPPORT}", "exact", {"model": "sparse"})
    for clip in size.other_clips:
        where = {"model": "attention", "clip": clip}
        for row in (TRAIN, TEST):
            label = f"{LABELS['attention']}, {clip_name(clip)}, {row}"
            yield Quantity(label, ERRORS[row], where, drift=0.5)


def _test(summary: Summary, model: str) -> float:
    return summary[f"{LABELS[model]}, {TEST}"]


def _ahead(summary: Summary) -> bool:
    return all(_test(summary, "attention") < _test(summary, model) for model in ("depth", "width"))


def _noise_shows(summary: Summary) -> bool:
    differences = (
        summary[f"{LABELS[model]}, {NOISY}"] - _test(summary, model)
        for model in ("attention", *SOLVERS)
    )
    return all(abs(difference - 1) < 0.2 for difference in differences)


def _clipping_matters(summary: Summary) -> bool:
    tightest = clip_name(SIZES[summary.scale].other_clips[0])
    return summary[f"ATTENTION, {tightest}, {TEST}"] > _test(summary, "attention")


def figure(summary: Summary) -> "Figure":
    """Draw all errors, ours and printed, and the effect of the clipping threshold."""
    from exactformer.experiments.fang.table_1_drawing import table_1

    return table_1(summary)


EXPERIMENT = Experiment(
    name="fang-table-1",
    title="A polynomial of degree five in ten variables, learnt from noisy samples",
    claim="Trained on noisy labels, the transformer fits f₂* with good convergence speed and "
    "generalises much better than two ReLU networks with as many free parameters.",
    source="Fang et al. 2022, Table 1",
    cells=cells,
    run=run,
    quantities=lambda scale: tuple(quantities(scale)),
    statements=(
        Statement("attention is ahead of both networks on the clean target", _ahead),
        Statement(
            "NN_depth fits the training data better than NN_width, as printed",
            lambda s: s[f"NN_depth, {TRAIN}"] < s[f"NN_width, {TRAIN}"],
        ),
        Statement(
            "the sparse solver finds exactly the terms of the target on every seed",
            lambda s: s[f"sparse, {SUPPORT}"] == 1,
            ours=True,
        ),
        Statement(
            "the sparse solver is ahead of least squares and of training",
            lambda s: _test(s, "sparse") < min(_test(s, "least-squares"), _test(s, "attention")),
            ours=True,
        ),
        Statement(
            "noisy test labels add their variance, 1, to the error of every good fit",
            _noise_shows,
            ours=True,
        ),
        Statement(
            "the tightest clipping leaves attention further off", _clipping_matters, ours=True
        ),
    ),
    figure=figure,
)
