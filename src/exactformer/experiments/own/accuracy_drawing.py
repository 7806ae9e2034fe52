"""The figure of accuracy by construction: markers observed, lines certified."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.figure import legend, subplots
from exactformer.experiments.engine.summary import Summary, frame_of
from exactformer.figures.style import GREY

_LOOK: dict[str, tuple[str, str]] = {
    "paper": ("#d9622b", "s"),
    "softmax": ("#8c4fa3", "D"),
    "scaled": ("#1d5fa8", "o"),
    "doubling": ("#b8860b", "x"),
    "chebyshev": ("#2a8c6a", "^"),
}
_CLOSED_FORMS = ("scaled", "chebyshev")  # those of powers are all the same
_RANGE = {"float64": (1e-17, 1e2), "float32": (1e-9, 1e6)}


def draw(summary: Summary) -> Figure:
    """Draw errors over max |Q| against degree and radius, in two formats."""
    figure, panels = subplots(13, 7.6, 2, 3, sharey="row")
    for row, name in zip(panels, _RANGE, strict=True):
        _against_degree(row[0], summary, "oscillating", name)
        _against_degree(row[1], summary, "dense", name)
        _against_radius(row[2], summary, name)
        row[0].set(ylim=_RANGE[name], ylabel=f"{name}: largest error / max |Q|")
        for axes in row:
            axes.axhspan(1, _RANGE[name][1], color="#f3f4f6", zorder=0)
        small: Any = {"transform": row[0].transAxes, "va": "top", "fontsize": 7, "color": GREY}
        row[0].text(0.02, 0.985, "no digit is right", **small)
    rings = {"marker": "o", "linestyle": "", "color": GREY}
    legend(
        figure,
        {
            **{name: {"color": c, "marker": marker} for name, (c, marker) in _LOOK.items()},
            "observed, every matrix": rings,
            "certified, every matrix": {"linestyle": "-", "color": GREY},
            "observed, closed form": {**rings, "fillstyle": "none", "markersize": 6.5},
            "certified, closed form": {"linestyle": ":", "color": GREY},
        },
        fontsize=8.5,
    )
    return figure


def _against_degree(axes: Axes, summary: Summary, family: str, name: str) -> None:
    cells = summary.select(target=family, radius="1", format=name)
    _curves(axes, cells, lambda cell: float(cell.parameters["degree"]))
    axes.set(
        xscale="log",
        xlabel="degree q",
        title="$T_q$ on [−1, 1]" if family == "oscillating" else "dense in three variables, B = 1",
    )
    ticks = [2, 4, 8, 16, 32, 60] if family == "oscillating" else [2, 3, 4, 5, 6, 8, 10]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()


def _against_radius(axes: Axes, summary: Summary, name: str) -> None:
    degree = 5
    cells = summary.select(target="dense", degree=degree, format=name)
    _curves(axes, cells, lambda cell: float(Fraction(cell.parameters["radius"])))
    axes.set(xscale="log", xlabel="radius B", title=f"dense of degree {degree} in three variables")


def _curves(axes: Axes, cells: Sequence[Cell], place: Callable[[Cell], float]) -> None:
    axes.set_yscale("log")
    found = frame_of(cells).assign(x=[place(cell) for cell in cells])
    for construction, (colour, marker) in _LOOK.items():
        mine = found[found["construction"] == construction].sort_values("x")
        literal = mine.dropna(subset="literal")
        above = construction == "doubling"  # on the very line of scaled
        line: Any = {"linestyle": (0, (4, 4)) if above else "-", "zorder": 3 if above else 2}
        axes.plot(literal["x"], literal["literal bound"], color=colour, linewidth=1.6, **line)
        look: Any = {"marker": marker, "linestyle": "", "color": colour}
        axes.plot(literal["x"], literal["literal"], markersize=4.5, zorder=4, **look)
        if construction in _CLOSED_FORMS:
            axes.plot(mine["x"], mine["fused bound"], ":", color=colour, linewidth=1.1)
            look |= {"markersize": 6.5, "fillstyle": "none", "markeredgewidth": 0.7, "zorder": 3}
            axes.plot(mine["x"], mine["fused"], **look)
