"""Maps that depend on the order of the tokens, with and without positions.

Without positions a transformer is permutation equivariant, f(XP) = f(X)P. A map that is not cannot be
approximated: for two orders of the same columns every such model is wrong on one of them. It is
refused, with that pair. With positions it is compiled, and its error is of order δ. For n tokens in
one dimension, with the cells' centre values,

    sort, reverse     d_2 = δ √(n/12)
    cumulative-sum    d_2 = δ √(n(n + 1)/24),    the j-th sum having j errors of δ²/12 in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import log2, sqrt
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Cell, Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDERED = ("sort", "reverse", "cumulative-sum")
CONTROL = "mean-subtract"
TOKENS = 3
SIDES = by_scale((2, 4, 8), (2, 4, 8, 16))


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Every map with positions, by δ; and once without."""
    samples = by_scale(5_000, 50_000)[scale]
    tried = [(name, N, True) for name in ORDERED for N in SIDES[scale]]
    tried += [(name, 4, False) for name in (*ORDERED, CONTROL)]
    return [
        {"map": name, "cells": N, "positional": positional, "samples": samples, "seed": 0}
        for name, N, positional in tried
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Compile and measure, or take down the pair of inputs with which the map is refused."""
    from exactformer.errors import NotEquivariantError
    from exactformer.sequences.compile import compile_sequence
    from exactformer.sequences.maps import sequence_map

    f, N = sequence_map(parameters["map"]), parameters["cells"]
    try:
        model = compile_sequence(
            f,
            tokens=TOKENS,
            dim=1,
            delta=Fraction(1, N),
            form="compact",
            positional=parameters["positional"],
            device=device,
        )
    except NotEquivariantError as refusal:
        pair = {
            "inputs": [x[:, 0].tolist() for x in refusal.inputs],
            "outputs": [y[:, 0].tolist() for y in refusal.outputs],
        }
        return {"refused": True, **pair}
    error = model.measure(f, samples=parameters["samples"], seed=parameters["seed"])
    return {"refused": False, "d_2": error.value, "standard error": error.standard_error}


def closed_form(name: str, N: int) -> float:
    """Return d_2 with positions."""
    n = TOKENS
    return sqrt(n * (n + 1) / 24 if name == "cumulative-sum" else n / 12) / N


def shows_it(inputs: Sequence[Sequence[float]], outputs: Sequence[Sequence[float]]) -> bool:
    """Whether one input is the other in another order, and no order of it explains the outputs.

    With different columns there is one order that takes the first input to the second; an
    equivariant map would take the outputs along.
    """
    first, second = inputs
    if sorted(first) != sorted(second) or len(set(first)) < len(first):
        return False
    moved = [outputs[0][list(first).index(value)] for value in second]
    return max(abs(a - b) for a, b in zip(moved, outputs[1], strict=True)) > 0.01


def _quantities(scale: Scale) -> list[Quantity]:
    return rows(
        "{map}, positions, δ = 1/{cells}: d_2",
        "d_2",
        {"map": ORDERED, "cells": SIDES[scale]},
        {"positional": True},
        expected=lambda row: closed_form(row["map"], row["cells"]),
        place="closed form",
        within=0.02,
        drift=0.01,
    )


def draw(summary: Summary) -> Figure:
    """Draw errors with positions, and the pairs that show why they are needed."""
    figure, (rate, *pairs) = subplots(13, 4, 1, 4, gridspec_kw={"width_ratios": [1.5, 1, 1, 1]})
    _rates(rate, summary)
    for axes, name in zip(pairs, ORDERED, strict=True):
        _pair(axes, name, summary.cell(map=name, positional=False))
    return figure


def _rates(axes: Axes, summary: Summary) -> None:
    looks = (("o", 9, BLUE), ("x", 6, GREEN), ("s", 5, ORANGE))
    for name, (marker, size, colour) in zip(ORDERED, looks, strict=True):
        mine = summary.frame.query("map == @name and positional").sort_values("cells")
        look: Any = {"color": colour, "markersize": size, "label": name, "fillstyle": "none"}
        axes.plot(mine["cells"], mine["d_2"], marker, **look)
        axes.plot(
            mine["cells"], [closed_form(name, N) for N in mine["cells"]], color=colour, lw=0.9
        )
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="cells a side, 1/δ", ylabel=r"$d_2$; lines: closed forms")
    axes.set_title("with positions: error of order δ; without:")
    axes.legend()


def _pair(axes: Axes, name: str, cell: Cell) -> None:
    """Draw both inputs and outputs; a column keeps its colour."""
    inputs, outputs = cell.metrics["inputs"], cell.metrics["outputs"]
    colours = dict(zip(sorted(inputs[0]), (BLUE, ORANGE, GREEN), strict=False))
    for row, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
        for j, (value, image) in enumerate(zip(x, y, strict=True)):
            colour = colours[value]
            arrow = {"arrowstyle": "->", "color": colour, "lw": 1.4, "ls": "-:"[row]}
            axes.annotate("", (1, image), (0, value), arrowprops=arrow)
            axes.text(-0.06 - 0.13 * row, value, f"{j + 1}", color=colour, ha="right", va="center")
        axes.plot([0] * len(x), x, "o", color=GREY, markersize=3)
    axes.set(xlim=(-0.45, 1.15), ylim=(0, max(map(max, outputs)) * 1.1))
    axes.set_xticks([0, 1], ["input", "output"])
    axes.set_title(f"{name}: refused")
    axes.set_xlabel("two orders: solid, dotted")
    axes.grid(axis="x")


EXPERIMENT = Experiment(
    name="yun-positions",
    title="Sorting, reversing and adding up, with and without positions",
    claim="Without positions only equivariant maps; with them any, and the error is of order δ.",
    source="Yun et al. 2020, the theorem with positional encodings",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


def _without(summary: Summary) -> list[Cell]:
    """Return the cells of ordered maps without positions."""
    return [cell for name in ORDERED for cell in summary.select(map=name, positional=False)]


@EXPERIMENT.states("sort, reverse and cumulative-sum are refused without positions")
def _(summary: Summary) -> bool:
    found = _without(summary)
    return len(found) == len(ORDERED) and all(cell.metrics["refused"] for cell in found)


@EXPERIMENT.states("each with two orders of the same columns that show it")
def _(summary: Summary) -> bool:
    pairs = ((cell.metrics["inputs"], cell.metrics["outputs"]) for cell in _without(summary))
    return all(shows_it(*pair) for pair in pairs)


@EXPERIMENT.states("with positions they are not, nor is mean-subtract without")
def _(summary: Summary) -> bool:
    return not summary.frame.query("positional or map == @CONTROL")["refused"].any()


@EXPERIMENT.states("closed forms are met within four standard errors")
def _(summary: Summary) -> bool:
    return all(
        abs(cell.metrics["d_2"] - closed_form(cell.parameters["map"], cell.parameters["cells"]))
        <= 4 * cell.metrics["standard error"]
        for cell in summary.select(positional=True)
    )


@EXPERIMENT.states("halving δ halves the error, exponent 1 ± 0.05")
def _(summary: Summary) -> bool:
    errors = summary.frame.query("positional").sort_values("cells").groupby("map")["d_2"]
    return all(abs(log2(coarse / fine) - 1) <= 0.05 for _, (*_, coarse, fine) in errors)
