"""The rate at which sequence models approach their map: d_1 and d_2 against δ, in all forms.

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

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import log2, prod, sqrt
from typing import TYPE_CHECKING, Any

from exactformer.core.words import at_most
from exactformer.experiments import Cell, Experiment, Quantity, Scale, by_scale
from exactformer.experiments.engine.summary import Summary, frame_of
from exactformer.experiments.yun.contextual import FORMS
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, legend, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAPS = {"identity": 2, "mean-subtract": 2, "sort": 2, "softmax-attention": 3}
"""Maps with their number of tokens."""
ATTENTION = "softmax-attention"


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every map, form and δ."""
    sides = by_scale((8, 16), (4, 8, 16, 32))[scale]
    samples = by_scale(5_000, 50_000)[scale]
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
        metrics["bound"] = float(at_most(bounded.certificate.bound(), 4))
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
    shared = prod(1 - i * delta for i in range(n))
    if p == 1:
        return shared * n * delta / 4 + (1 - shared) * n / 2
    return sqrt(shared * n * delta**2 / 12 + (1 - shared) * n / 3)


def _slope(cells: Sequence[Cell]) -> float:
    """Return the exponent of δ in d_2, between the two finest grids."""
    (N, coarse), (M, fine) = frame_of(cells).sort_values("cells")[["cells", "d_2"]].to_numpy()[-2:]
    return log2(coarse / fine) / log2(M / N)


def _quantities(scale: Scale) -> Iterator[Quantity]:
    finest = max(cell["cells"] for cell in cells(scale))
    for name, form in product(MAPS, FORMS):
        where = {"map": name, "form": form}
        exact = closed_form(name, MAPS[name], finest, form == "four-layer" or name == "sort", 2)
        yield Quantity(
            f"{name}, {form}: d_2 at δ = 1/{finest}",
            "d_2",
            {**where, "cells": finest},
            expected=exact,
            place="" if exact is None else "closed form",
            within=0.02,
            drift=0.01,
        )
        yield Quantity(f"{name}, {form}: exponent of δ", _slope, where, drift=0.05)


_LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"marker": "o", "ls": "", "color": ORANGE, "markersize": 9, "fillstyle": "none"},
    "compact": {"marker": "o", "ls": "", "color": BLUE, "markersize": 5, "fillstyle": "full"},
    "four-layer": {"marker": "s", "ls": "", "color": GREEN, "markersize": 5, "fillstyle": "full"},
}


def draw(summary: Summary) -> "Figure":
    """Draw d_2 against δ for every map, measured and known."""
    figure, panels = subplots(13, 4, 1, len(MAPS), sharey=True)
    for axes, (name, frame) in zip(panels, summary.frame.groupby("map", sort=False), strict=True):
        for form, look in _LOOKS.items():
            mine = frame[frame["form"] == form].sort_values("cells")
            axes.plot(mine["cells"], mine["d_2"], **look)
            for column, style in (
                ("d_2 closed form", {"lw": 1.0}),
                ("bound", {"lw": 1.2, "ls": ":"}),
            ):
                if mine[column].notna().all():
                    axes.plot(mine["cells"], mine[column], color=look["color"], **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(f"{name}, n = {MAPS[str(name)]}")
        positions = "with positions" if name == "sort" else "equivariant"
        axes.set_xlabel(f"cells a side, 1/δ ({positions})")
        first, last = frame.cells.min(), frame.cells.max()
        axes.plot([first, last], [0.02, 0.02 * first / last], color=GREY, lw=0.8, ls="--")
        axes.text(first, 0.011, "slope −1", color=GREY, fontsize=8, va="top")
    panels[0].set_ylabel(r"$d_2$, measured")
    known = {"closed form": {"color": INK, "lw": 1}}
    legend(figure, {**_LOOKS, **known, "certified bound": {"color": INK, "lw": 1, "ls": ":"}})
    return figure


EXPERIMENT = Experiment(
    name="yun-rate",
    title="How fast sequence models approach their map",
    claim="Errors fall with δ as the closed forms say; giving up equal cells costs half the order.",
    source="Yun et al. 2020, the proof's three steps",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


@EXPERIMENT.states("closed forms are met within four standard errors")
def _(summary: Summary) -> bool:
    return all(
        ((f[d] - f[f"{d} closed form"]).abs() <= 4 * f[f"{d} standard error"]).all()
        for d in ("d_1", "d_2")
        for f in [summary.frame.dropna(subset=f"{d} closed form")]
    )


@EXPERIMENT.states("no d_2 passes its certified bound")
def _(summary: Summary) -> bool:
    bounded = [cell.metrics for cell in summary.cells if "bound" in cell.metrics]
    return len(bounded) > 0 and all(
        m["d_2"] <= m["bound"] + 4 * m["d_2 standard error"] for m in bounded
    )


@EXPERIMENT.states(
    "four layers, softmax attention of three tokens: the error is of order δ, exponent 1 ± 0.1"
)
def _(summary: Summary) -> bool:
    return abs(_slope(summary.select(map=ATTENTION, form="four-layer")) - 1) <= 0.1


@EXPERIMENT.states("paper takes 100 times their layers at δ = 1/16")
def _(summary: Summary) -> bool:
    layers = summary.frame.query("map == @ATTENTION and cells == 16").set_index("form")["layers"]
    return bool(layers["paper"] >= 100 * layers["four-layer"])


@EXPERIMENT.states("paper and compact, identity and attention: exponent about 1/2 (0.4 to 0.65)")
def _(summary: Summary) -> bool:
    return all(
        0.4 <= _slope(summary.select(map=name, form=form)) <= 0.65
        for name, form in product(("identity", ATTENTION), ("paper", "compact"))
    )


@EXPERIMENT.states("paper and compact are the same function")
def _(summary: Summary) -> bool:
    d_2 = summary.frame.pivot(index=["map", "cells"], columns="form", values="d_2")
    return bool((d_2["paper"] == d_2["compact"]).all())
