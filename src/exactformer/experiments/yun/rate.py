"""How fast sequence models approach their map: d_1 and d_2 against δ, in all forms.

With the cells' centre values and uniform inputs, an L-Lipschitz map has d_2 ≤ L·δ·√(dn/12) wherever no
input is given up, since a point is δ²/12 from the centre of its cell in the mean square, in each of dn
coordinates. Paper and compact models give up inputs with two tokens in one cell, a share 1 − P with
P = Π_{i<n} (1 − i/D), and are 0 there: an error of order δ^(d/2) in d_2 that no smoothness helps.
Certificates bound both parts.

Closed forms (d = 1):

    identity, n = 2, four layers   d_2² = nδ²/12           d_1 = nδ/4
    identity, paper and compact    d_2² = P·nδ²/12 + (1 − P)·n/3
    mean subtraction, n = 2        d_2 = δ/√12, in every form: the map is as small as δ where it is cut
    sorting, n = 2, positions      d_2 = δ√(n/12)          d_1 = nδ/4
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

FORMS = ("paper", "compact", "four-layer")
MAPS = {"identity": 2, "mean-subtract": 2, "sort": 2, "softmax-attention": 3}
"""Maps with their number of tokens."""
ATTENTION = "softmax-attention"


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every map, form and δ."""
    smoke = scale is Scale.SMOKE
    sides = (8, 16) if smoke else (4, 8, 16, 32)
    samples = 5_000 if smoke else 50_000
    return [
        {"map": name, "form": form, "n": n, "cells": N, "samples": samples, "seed": 0}
        for name, n in MAPS.items()
        for form in FORMS
        for N in sides
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Compile a map and measure both errors, each with its standard error."""
    from exactformer.sequences.compile import compile_sequence
    from exactformer.sequences.maps import sequence_map
    from exactformer.sequences.proof.error import rounded_up

    f, n, N = sequence_map(parameters["map"]), parameters["n"], parameters["cells"]
    form = parameters["form"]
    positional = not f.equivariant
    model = compile_sequence(
        f,
        tokens=n,
        dim=1,
        delta=Fraction(1, N),
        form=form,
        positional=positional,
        device=device,
    )
    kept = positional or form == "four-layer"
    metrics: dict[str, Any] = {"layers": model.blueprint.counts().depth, "kept": kept}
    for p in (1, 2):
        error = model.measure(f, p=p, samples=parameters["samples"], seed=parameters["seed"])
        metrics |= {f"d_{p}": error.value, f"d_{p} standard error": error.standard_error}
        exact = closed_form(parameters["map"], n, N, kept, p)
        if exact is not None:
            metrics[f"d_{p} closed form"] = exact
    if f.lipschitz is not None:
        bounded = model.bounded(f.lipschitz(n), target=f)
        metrics["bound"] = rounded_up(bounded.certificate.bound())
    return metrics


def closed_form(name: str, n: int, N: int, kept: bool, p: int) -> float | None:
    """Return d_p in one dimension where it is known."""
    delta = 1 / N
    if name == "mean-subtract" and p == 2:
        return delta / sqrt(12)
    if name not in ("identity", "sort"):
        return None
    if kept:
        return n * delta / 4 if p == 1 else delta * sqrt(n / 12)
    shared = 1.0
    for i in range(n):
        shared *= 1 - i * delta
    if p == 1:
        return shared * n * delta / 4 + (1 - shared) * n / 2
    return sqrt(shared * n * delta**2 / 12 + (1 - shared) * n / 3)


def _slope(cells: Sequence[Cell]) -> float:
    """Return the exponent of δ in d_2, between the two finest grids."""
    last = sorted(cells, key=lambda cell: cell.parameters["cells"])[-2:]
    (N, coarse), (M, fine) = ((c.parameters["cells"], c.metrics["d_2"]) for c in last)
    return log2(coarse / fine) / log2(M / N)


def _quantities(scale: Scale) -> list[Quantity]:
    finest = max(cell["cells"] for cell in cells(scale))
    rows = []
    for name, n in MAPS.items():
        for form in FORMS:
            where = {"map": name, "form": form}
            kept = form == "four-layer" or name == "sort"
            exact = closed_form(name, n, finest, kept, 2)
            rows.append(
                Quantity(
                    f"{name}, {form}: d_2 at δ = 1/{finest}", "d_2", {**where, "cells": finest},
                    printed=exact, place="" if exact is None else "closed form", within=0.02,
                    drift=0.01,
                )
            )  # fmt: skip
            rows.append(Quantity(f"{name}, {form}: exponent of δ", _slope, where, drift=0.05))
    return rows


def _closed_forms_met(summary: Summary) -> bool:
    known = [
        (cell.metrics[f"d_{p}"], cell.metrics[f"d_{p} closed form"], cell.metrics[error])
        for cell in summary.cells
        for p in (1, 2)
        for error in [f"d_{p} standard error"]
        if f"d_{p} closed form" in cell.metrics
    ]
    return len(known) > 0 and all(abs(ours - exact) <= 4 * error for ours, exact, error in known)


def _bounded(summary: Summary) -> bool:
    bounded = [cell.metrics for cell in summary.cells if "bound" in cell.metrics]
    return len(bounded) > 0 and all(
        m["d_2"] <= m["bound"] + 4 * m["d_2 standard error"] for m in bounded
    )


def _four_layers_are_first_order(summary: Summary) -> bool:
    return abs(_slope(summary.select(map=ATTENTION, form="four-layer")) - 1) <= 0.1


def _few_layers(summary: Summary) -> bool:
    four, paper = (
        summary.select(map=ATTENTION, form=form, cells=16)[0].metrics["layers"]
        for form in ("four-layer", "paper")
    )
    return bool(paper >= 100 * four)


def _giving_up_costs(summary: Summary) -> bool:
    return all(
        0.4 <= _slope(summary.select(map=name, form=form)) <= 0.65
        for name in ("identity", ATTENTION)
        for form in ("paper", "compact")
    )


def _same_function(summary: Summary) -> bool:
    return all(
        cell.metrics["d_2"] == twin.metrics["d_2"]
        for cell in summary.select(form="paper")
        for twin in summary.select(**{**cell.parameters, "form": "compact"})
    )


def draw(summary: Summary) -> Figure:
    """Draw d_2 against δ for every map, measured and known."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import exactformer_style

    with exactformer_style():
        figure = Figure(figsize=(13, 4), layout="constrained")
        panels = figure.subplots(1, len(MAPS), sharey=True)
        for axes, name in zip(panels, MAPS, strict=True):
            _panel(axes, summary, name)
        panels[0].set_ylabel(r"$d_2$, measured")
        _legend(figure)
    return figure


def _looks() -> dict[str, tuple[str, str, int]]:
    from exactformer.figures.style import BLUE, GREEN, ORANGE

    return {"paper": (ORANGE, "o", 9), "compact": (BLUE, "o", 5), "four-layer": (GREEN, "s", 5)}


def _panel(axes: Axes, summary: Summary, name: str) -> None:
    from exactformer.figures.style import GREY

    for form, (colour, marker, size) in _looks().items():
        mine = sorted(summary.select(map=name, form=form), key=_cells)
        x = [_cells(cell) for cell in mine]
        fill: Any = "none" if form == "paper" else "full"
        axes.plot(
            x, [c.metrics["d_2"] for c in mine], marker, color=colour, markersize=size,
            fillstyle=fill,
        )  # fmt: skip
        if all("d_2 closed form" in cell.metrics for cell in mine):
            axes.plot(x, [c.metrics["d_2 closed form"] for c in mine], color=colour, lw=1)
        bounds = [c.metrics["bound"] for c in mine if "bound" in c.metrics]
        if len(bounds) == len(x):
            axes.plot(x, bounds, ":", color=colour, lw=1.2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    positions = "with positions" if name == "sort" else "equivariant"
    axes.set_title(f"{name}, n = {MAPS[name]}")
    axes.set_xlabel(f"cells a side, 1/δ ({positions})")
    ends = [_cells(cell) for cell in summary.select(map=name)]
    first, last = min(ends), max(ends)
    axes.plot([first, last], [0.02, 0.02 * first / last], color=GREY, lw=0.8, ls="--")
    axes.text(first, 0.011, "slope −1", color=GREY, fontsize=8, va="top")


def _cells(cell: Cell) -> int:
    return int(cell.parameters["cells"])


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], marker=marker, ls="", color=colour, markersize=size, label=form,
            fillstyle="none" if form == "paper" else "full",
        )
        for form, (colour, marker, size) in _looks().items()
    ]  # fmt: skip
    plain: dict[str, Any] = {"color": "#1f2937", "lw": 1}
    handles.append(Line2D([], [], label="closed form", **plain))
    handles.append(Line2D([], [], ls=":", label="certified bound", **plain))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


EXPERIMENT = Experiment(
    name="yun-rate",
    title="How fast sequence models approach their map",
    claim="Errors fall with δ as the closed forms say; giving up equal cells costs half the order.",
    source="Yun et al. 2020, the proof's three steps",
    ours=True,
    cells=cells,
    run=run,
    quantities=_quantities,
    statements=(
        Statement("closed forms are met within four standard errors", _closed_forms_met),
        Statement("no d_2 passes its certified bound", _bounded),
        Statement(
            "four layers, softmax attention of three tokens: the error is of order δ, exponent "
            "1 ± 0.1",
            _four_layers_are_first_order,
        ),
        Statement("paper takes 100 times their layers at δ = 1/16", _few_layers),
        Statement(
            "paper and compact, identity and attention: exponent about 1/2 (0.4 to 0.65)",
            _giving_up_costs,
        ),
        Statement("paper and compact are the same function", _same_function),
    ),
    figure=draw,
)
