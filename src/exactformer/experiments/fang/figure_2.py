"""Figure 2: x₁² + x₂² learnt by three models of a few dozen parameters, as surfaces."""

from typing import Any

from exactformer.experiments import Experiment, Quantity, Scale, Summary, rows
from exactformer.experiments.fang.cell import NETWORKS, SOLVERS, Size, all_cells, run
from exactformer.experiments.fang.names import (
    ADDS_THE_VARIANCE,
    ERRORS,
    FINDS_THE_TERMS,
    SUPPORT,
    TEST,
    named,
    test_error,
)

# The paper leaves its clipping threshold unsaid; the others show what depends on it.
CLIP = 10.0
OTHER_CLIPS = (1.0, 100.0, 1000.0, None)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return the paper's own sizes, which a processor can afford, but for the quickest scale."""
    if scale is Scale.SMOKE:
        return all_cells(Size("f1", 2000, 1000, 10, 120, 500, CLIP), 1, ())
    return all_cells(Size("f1", 9000, 1000, 10, 600, 5000, CLIP), 5, OTHER_CLIPS)


QUANTITIES = [
    *rows(
        "{model}, {row}",
        ERRORS,
        {"model": named(NETWORKS)},
        {"clip": CLIP},
        place=lambda row: "Figure 2" if row["row"] == TEST else "",
        drift=0.05,
    ),
    *rows("{model}, {row}", ERRORS, {"model": named(SOLVERS)}, drift=1e-4),
    Quantity(f"sparse, {SUPPORT}", "exact", {"model": "sparse"}),
]


EXPERIMENT = Experiment(
    name="fang-figure-2",
    title="A paraboloid learnt by 41 parameters",
    claim="The transformer captures f₁* from noisy data with 41 free parameters; piecewise linear "
    "networks of that size cannot.",
    source="Fang et al. 2022, Figure 2",
    cells=cells,
    run=run,
    quantities=QUANTITIES,
    statements=[FINDS_THE_TERMS, ADDS_THE_VARIANCE],
    figure="exactformer.experiments.fang.drawing:figure_2",
)


@EXPERIMENT.states("attention is ahead of both networks on the clean target by a factor of 100")
def _(s: Summary) -> bool:
    return 100 * test_error(s, "attention") < min(test_error(s, "depth"), test_error(s, "width"))


@EXPERIMENT.states("attention is at most at the published 0.02")
def _(s: Summary) -> bool:
    return test_error(s, "attention") <= 0.02


@EXPERIMENT.states("the sparse solver is ahead of least squares")
def _(s: Summary) -> bool:
    return test_error(s, "sparse") < test_error(s, "least-squares")
