"""What positions are for: maps that depend on the order of the tokens, with and without them.

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

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.cell import Cell
    from exactformer.experiments.engine.summary import Summary

ORDERED = ("sort", "reverse", "cumulative-sum")
CONTROL = "mean-subtract"
TOKENS = 3


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Every map with positions, by δ; and once without."""
    smoke = scale is Scale.SMOKE
    sides = (2, 4, 8) if smoke else (2, 4, 8, 16)
    samples = 5_000 if smoke else 50_000
    tried = [(name, N, True) for name in ORDERED for N in sides]
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
    sides = sorted({cell["cells"] for cell in cells(scale) if cell["positional"]})
    return [
        Quantity(
            f"{name}, positions, δ = 1/{N}: d_2", "d_2",
            {"map": name, "cells": N, "positional": True},
            printed=closed_form(name, N), place="closed form", within=0.02, drift=0.01, ours=True,
        )
        for name in ORDERED
        for N in sides
    ]  # fmt: skip


def _refused(summary: Summary) -> bool:
    found = [cell for name in ORDERED for cell in summary.select(map=name, positional=False)]
    return len(found) == len(ORDERED) and all(cell.metrics["refused"] for cell in found)


def _pairs_show_it(summary: Summary) -> bool:
    found = [c.metrics for name in ORDERED for c in summary.select(map=name, positional=False)]
    return all(shows_it(m["inputs"], m["outputs"]) for m in found)


def _accepted(summary: Summary) -> bool:
    others = [*summary.select(positional=True), *summary.select(map=CONTROL)]
    return not any(cell.metrics["refused"] for cell in others)


def _closed_forms_met(summary: Summary) -> bool:
    return all(
        abs(m["d_2"] - closed_form(cell.parameters["map"], cell.parameters["cells"]))
        <= 4 * m["standard error"]
        for cell in summary.select(positional=True)
        for m in [cell.metrics]
    )


def _first_order(summary: Summary) -> bool:
    for name in ORDERED:
        mine = sorted(summary.select(map=name, positional=True), key=_cells)
        (coarse, fine) = mine[-2:]
        if abs(log2(coarse.metrics["d_2"] / fine.metrics["d_2"]) - 1) > 0.05:
            return False
    return True


def _cells(cell: Cell) -> int:
    return int(cell.parameters["cells"])


def draw(summary: Summary) -> Figure:
    """Draw errors with positions, and the pairs that show why they are needed."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import exactformer_style

    with exactformer_style():
        figure = Figure(figsize=(13, 4), layout="constrained")
        rate, *pairs = figure.subplots(1, 4, gridspec_kw={"width_ratios": [1.5, 1, 1, 1]})
        _rates(rate, summary)
        for axes, name in zip(pairs, ORDERED, strict=True):
            (cell,) = summary.select(map=name, positional=False)
            _pair(axes, name, cell)
    return figure


def _rates(axes: Axes, summary: Summary) -> None:
    from exactformer.figures.style import BLUE, GREEN, ORANGE

    looks = (("o", 9, BLUE), ("x", 6, GREEN), ("s", 5, ORANGE))
    for name, (marker, size, colour) in zip(ORDERED, looks, strict=True):
        mine = sorted(summary.select(map=name, positional=True), key=_cells)
        x = [_cells(cell) for cell in mine]
        axes.plot(
            x, [c.metrics["d_2"] for c in mine], marker, color=colour, markersize=size, label=name,
            fillstyle="none",
        )  # fmt: skip
        axes.plot(x, [closed_form(name, N) for N in x], color=colour, lw=0.9)
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="cells a side, 1/δ", ylabel=r"$d_2$; lines: closed forms")
    axes.set_title("with positions: error of order δ; without:")
    axes.legend()


def _pair(axes: Axes, name: str, cell: Cell) -> None:
    """Draw both inputs and outputs; a column keeps its colour."""
    from exactformer.figures.style import BLUE, GREEN, ORANGE

    inputs, outputs = cell.metrics["inputs"], cell.metrics["outputs"]
    colours = dict(zip(sorted(inputs[0]), (BLUE, ORANGE, GREEN), strict=False))
    for row, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
        for j, (value, image) in enumerate(zip(x, y, strict=True)):
            colour = colours[value]
            axes.annotate(
                "", (1, image), (0, value),
                arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.4, "ls": "-:"[row]},
            )  # fmt: skip
            axes.text(-0.06 - 0.13 * row, value, f"{j + 1}", color=colour, ha="right", va="center")
        axes.plot([0] * len(x), x, "o", color="#6b7280", markersize=3)
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
    statements=(
        Statement("sort, reverse and cumulative-sum are refused without positions", _refused),
        Statement(
            "each with two orders of the same columns that show it", _pairs_show_it, ours=True
        ),
        Statement("with positions they are not, nor is mean-subtract without", _accepted),
        Statement("closed forms are met within four standard errors", _closed_forms_met, ours=True),
        Statement("halving δ halves the error, exponent 1 ± 0.05", _first_order, ours=True),
    ),
    figure=draw,
)
