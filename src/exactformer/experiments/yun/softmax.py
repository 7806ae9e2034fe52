"""The cost of ordinary layers: softmax for the hard maximum, ReLU ramps for steps.

* **λ.** With inverse temperature λ and codes one unit apart, softmax leaves e^(−λ/2) beside the
  maximum (half a unit is the margin of a selective shift, in units of a cell; λδ²/2 in the paper's).
  Codes are off by a multiple of that, once it is small against what the keys multiply it with:
  λ/2 ≈ (2n + 1)·ln D. From a quarter of a cell on, the values do not change at all.
* **Ramps.** A step becomes a ramp of width 2^(−k) cells. At most 1 − (1 − 2^(−k))^(nd) of the inputs
  have a coordinate on one, and only those are spoilt: d_2 to the hard model falls as 2^(−k/2).
* **Tolerance.** Asked for a distance, both are chosen to meet it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import exp, log, log2, sqrt
from statistics import linear_regression
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Cell, Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.sequences.model import SequenceModel

MAP, TOKENS, CELLS = "mean-subtract", 2, 4
THRESHOLD = (2 * TOKENS + 1) * log(CELLS)
"""λ/2 from which codes are off by less than about a cell."""


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Three sweeps: over sharpness, over ramps, over tolerances."""
    draws = {"samples": by_scale(20_000, 200_000)[scale], "seed": 0}
    sweeps: dict[str, tuple[str, dict[Scale, Sequence[Any]], dict[str, Any]]] = {
        "half": ("sharpness", by_scale(range(2, 29, 4), range(1, 29)), {}),
        "ramp": ("ramp", by_scale((3, 5, 7), range(2, 10)), draws),
        "tolerance": ("tolerance", by_scale((0.1, 0.01), (0.3, 0.1, 0.03, 0.01)), draws),
    }
    return [
        {"sweep": sweep, name: value, **fixed}
        for name, (sweep, values, fixed) in sweeps.items()
        for value in values[scale]
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Soften one model and compare it with its hard limit."""
    sweep = parameters["sweep"]
    if sweep == "sharpness":
        model = _model().softened(sharpness=2 * parameters["half"])
        softness = model.certificate.softness
        assert softness is not None
        return {
            "error": _code_error(model),
            "bound": softness.code_error,
            "threshold": softness.threshold / 2,
        }
    hard = _model().to(device)
    soft = hard.softened(**{sweep: parameters[sweep]})
    distance = soft.measure(hard, samples=parameters["samples"], seed=parameters["seed"])
    softness = soft.certificate.softness
    assert softness is not None
    span = sqrt(TOKENS * sum(s**2 for s in softness.spans))
    return {
        "d_2": distance.value,
        "standard error": distance.standard_error,
        "mass": softness.ramp_mass,
        "bound": sqrt(softness.ramp_mass) * span,
    }


def _model() -> SequenceModel:
    from exactformer.sequences.compile import compile_sequence
    from exactformer.sequences.maps import sequence_map

    f = sequence_map(MAP)
    delta = Fraction(1, CELLS)
    return compile_sequence(f, tokens=TOKENS, dim=1, delta=delta, form="compact")


def _code_error(model: SequenceModel) -> float:
    """Return how far any code is from its integer, in cells, over the centres of all classes."""
    import numpy as np

    read = np.zeros(model.blueprint.width)
    for _, row, weight in model.blueprint.code:
        read[row] = float(weight)
    largest = 0.0
    for ids in model.table.values:
        x = np.array([[(k + 0.5) / CELLS] for k in ids])
        soft = model.trace(x)["contextual mapping"].numpy() @ read
        largest = max(largest, float(np.abs(soft - model.codes(x).numpy()).max()))
    return largest


def _past(cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """Return λ/2 and code errors from the threshold on, as long as they are well above rounding."""
    found = [(c.parameters["half"], c.metrics["error"]) for c in cells]
    return [(half, error) for half, error in found if half >= THRESHOLD + 3 and error > 1e-8]


def _rate(cells: Sequence[Cell]) -> float:
    """Return −d ln(error)/d(λ/2) past the threshold, by least squares."""
    halves, errors = zip(*_past(cells), strict=True)
    return -linear_regression(halves, [log(error) for error in errors]).slope


def _ramp_rate(cells: Sequence[Cell]) -> float:
    """Return −d log₂(d_2)/dk between the widest ramp and the narrowest."""
    first, *_, last = sorted(cells, key=lambda cell: cell.parameters["ramp"])
    steps = last.parameters["ramp"] - first.parameters["ramp"]
    return float(log2(first.metrics["d_2"] / last.metrics["d_2"]) / steps)


def draw(summary: Summary) -> Figure:
    """Draw the error of the codes against λ, and d_2 against ramps and tolerances."""
    figure, (sharpness, ramps, tolerances) = subplots(13, 4, 1, 3)
    _draw_sharpness(sharpness, summary)
    _draw_distances(ramps, summary, "ramp", "bound", "certified")
    ramps.set(xlabel="k, ramps of 2^−k of a cell", title="narrower ramps")
    _draw_distances(tolerances, summary, "tolerance", "tolerance", "asked for")
    tolerances.set(xscale="log", xlabel="tolerance asked for", title="a tolerance, met")
    return figure


def _draw_sharpness(axes: Axes, summary: Summary) -> None:
    mine = summary.frame.query("sweep == 'sharpness'").sort_values("half")
    x, bounded = mine["half"], mine.dropna(subset="bound")
    axes.semilogy(x, mine["error"], "o", color=BLUE, label="largest, measured")
    axes.semilogy(bounded["half"], bounded["bound"], color=ORANGE, label="certified")
    (start, value), *_ = sorted(_past(summary.select(sweep="sharpness")))
    line = [value * exp(start - half) for half in x]
    axes.semilogy(x, line, ":", color=GREY, label=r"slope of $e^{-\lambda/2}$")
    axes.axvline(THRESHOLD, color=GREY, lw=0.8)
    axes.text(THRESHOLD + 0.4, 1e-8, "(2n + 1) ln D", color=GREY, fontsize=8)
    axes.axhline(0.25, color=GREY, lw=0.8, ls="--")
    axes.text(28, 0.35, "values exact below", color=GREY, fontsize=8, ha="right")
    axes.set(xlabel="λ/2", ylabel="codes off by, in cells", ylim=(1e-10, 1e6))
    axes.set_title("sharper softmax")
    axes.legend(loc="upper right")


def _draw_distances(axes: Axes, summary: Summary, sweep: str, limit: str, label: str) -> None:
    mine = summary.frame.query("sweep == @sweep").sort_values(sweep)
    axes.semilogy(mine[sweep], mine[limit], color=ORANGE, label=label)
    axes.semilogy(mine[sweep], mine["d_2"], "o", color=BLUE, label="measured")
    axes.set_ylabel(r"$d_2$ to the hard model")
    axes.legend()


EXPERIMENT = Experiment(
    name="yun-softmax",
    title="Softmax and ReLUs in place of hard maxima and steps",
    claim="The error of softmax falls as e^(−λδ²/2) past a threshold, that of ramps as 2^(−k/2).",
    source="Yun et al. 2020, the step from the modified to the ordinary transformer",
    cells=cells,
    run=run,
    quantities=[
        Quantity(
            "decay of the codes' error by λ/2",
            _rate,
            {"sweep": "sharpness"},
            expected=1.0,
            place="e^(−λδ²/2)",
            within=0.05,
            drift=0.01,
        ),
        Quantity(
            "decay of d_2 by k, in powers of 2",
            _ramp_rate,
            {"sweep": "ramp"},
            expected=0.5,
            place="2^(−k/2)",
            within=0.1,
            drift=0.05,
        ),
        Quantity("d_2 for ramps of 2^−5", "d_2", {"sweep": "ramp", "ramp": 5}, drift=0.05),
        *rows(
            "d_2, tolerance {tolerance}",
            "d_2",
            {"tolerance": (0.1, 0.01)},
            {"sweep": "tolerance"},
            drift=lambda row: {0.1: 0.5, 0.01: 2.0}[row["tolerance"]],
        ),
    ],
    figure=draw,
)


@EXPERIMENT.states("past the threshold codes err as e^(−λδ²/2), exponent 1 ± 0.05")
def _(summary: Summary) -> bool:
    return abs(_rate(summary.select(sweep="sharpness")) - 1) <= 0.05


@EXPERIMENT.states("well below it, by more than a cell")
def _(summary: Summary) -> bool:
    return summary.every("sweep == 'sharpness' and half <= @THRESHOLD - 3", "error > 1")


@EXPERIMENT.states("never by more than certified")
def _(summary: Summary) -> bool:
    sharp = (cell.metrics for cell in summary.select(sweep="sharpness"))
    bounded = [m for m in sharp if m["bound"] is not None]
    return len(bounded) > 0 and all(m["error"] <= m["bound"] + 1e-9 for m in bounded)


@EXPERIMENT.states("ramps: d_2 to the hard model falls as 2^(−k/2), exponent ± 0.1")
def _(summary: Summary) -> bool:
    return abs(_ramp_rate(summary.select(sweep="ramp")) - 0.5) <= 0.1


@EXPERIMENT.states("and is at most what their share of the inputs can cost")
def _(summary: Summary) -> bool:
    return summary.every("sweep == 'ramp'", "d_2 <= bound")


@EXPERIMENT.states("a tolerance asked for is met")
def _(summary: Summary) -> bool:
    return summary.every("sweep == 'tolerance'", "d_2 + 3 * `standard error` <= tolerance")
