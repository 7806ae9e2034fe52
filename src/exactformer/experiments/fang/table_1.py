"""Table 1: f₂* learnt by the transformer of Theorem 3.5 and by two networks of its size.

Next to the paper's three models, least squares over all monomials and the sparse solver learn from
the same samples. Every error says which labels it is taken on, and the clipping threshold, which
the paper does not state, has rows of its own.
"""

import math
from typing import Any

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.fang.cell import NETWORKS, SOLVERS, Clips, Size, all_cells, run
from exactformer.experiments.fang.names import (
    ADDS_THE_VARIANCE,
    ERRORS,
    FINDS_THE_TERMS,
    NOISY,
    SUPPORT,
    TEST,
    TRAIN,
    clip_name,
    named,
    test_error,
)

EPOCHS, MINUTES = "epochs to convergence", "minutes"

# Row: metric and drift.
TABLE: dict[str, tuple[str, float]] = {
    TRAIN: ("train", 0.05),
    TEST: ("test", 0.05),
    NOISY: ("test_noisy", 0.05),
    EPOCHS: ("converged", 0.05),
    MINUTES: ("minutes", math.inf),
}


# The paper leaves its clipping threshold unsaid. 1000 was chosen among 30, 100, 300, 1000, 3000
# and 10,000 after looking at the seeds reported, for the convergence nearest to the published 212
# epochs (seed 0: 306; at 100: 1789, at 10,000: 87). 100 is nearer in error (0.117 on seed 0,
# published 0.109), 300 has the least error over all seeds (0.093), and 3000 blew up in mid-training
# (0.498): the error does not fall steadily with the threshold, as the grid below might suggest.
SIZES = by_scale(
    Size("f2-small", 2000, 1000, 56, 80, 250, 100.0),
    Size("f2", 9000, 1000, 1001, 100, 450, 100.0),
    Size("f2", 45_000, 5000, 4368, 2000, 25_000, 1000.0),
)
OTHER_CLIPS: dict[Scale, Clips] = by_scale(
    (0.1,),
    (1.0, 10.0, 1000.0, None),
    (1.0, 10.0, 100.0, 300.0, 3000.0, 10_000.0, None),
)
SEEDS = by_scale(1, 3, 5)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return networks by the protocol, solvers, and networks with other thresholds."""
    return all_cells(SIZES[scale], SEEDS[scale], OTHER_CLIPS[scale])


def quantities(scale: Scale) -> list[Quantity]:
    """Return the table row by row."""
    fitted = {**{row: (metric, 1e-4) for row, metric in ERRORS.items()}, MINUTES: TABLE[MINUTES]}
    where = {"clip": SIZES[scale].clip}
    return [
        *rows("{model}, {row}", TABLE, {"model": named(NETWORKS)}, where),
        *rows("{model}, {row}", fitted, {"model": named(SOLVERS)}),
        Quantity(f"sparse, {SUPPORT}", "exact", {"model": "sparse"}),
        *rows(
            "ATTENTION, {clip}, {row}",
            {TRAIN: "train", TEST: "test"},
            {"clip": {clip: clip_name(clip) for clip in OTHER_CLIPS[scale]}},
            {"model": "attention"},
            drift=0.5,
        ),
    ]


EXPERIMENT = Experiment(
    name="fang-table-1",
    title="A polynomial of degree five in ten variables, learnt from noisy samples",
    claim="Trained on noisy labels, the transformer fits f₂* with good convergence speed and "
    "generalises much better than two ReLU networks with as many free parameters.",
    source="Fang et al. 2022, Table 1",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=[FINDS_THE_TERMS, ADDS_THE_VARIANCE],
    figure="exactformer.experiments.fang.drawing:table_1",
)


@EXPERIMENT.states("attention is ahead of both networks on the clean target")
def _(summary: Summary) -> bool:
    return all(
        test_error(summary, "attention") < test_error(summary, model)
        for model in ("depth", "width")
    )


@EXPERIMENT.states("attention alone errs by less than the noise on the clean target")
def _(summary: Summary) -> bool | None:
    if summary.scale is Scale.SMOKE:
        return None
    errors = {model: test_error(summary, model) for model in NETWORKS}
    return errors["attention"] < 1 < min(errors["depth"], errors["width"])


@EXPERIMENT.states("NN_depth fits the training data better than NN_width")
def _(s: Summary) -> bool:
    return s[f"NN_depth, {TRAIN}"] < s[f"NN_width, {TRAIN}"]


@EXPERIMENT.states("the sparse solver is ahead of least squares and of training")
def _(s: Summary) -> bool:
    return test_error(s, "sparse") < min(test_error(s, "least-squares"), test_error(s, "attention"))


@EXPERIMENT.states("the tightest clipping leaves attention further off")
def _(summary: Summary) -> bool:
    tightest = clip_name(OTHER_CLIPS[summary.scale][0])
    return summary[f"ATTENTION, {tightest}, {TEST}"] > test_error(summary, "attention")
