"""The figure of accuracy by construction: markers observed, lines certified."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.cell import Cell
    from exactformer.experiments.engine.summary import Summary

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
    from matplotlib.figure import Figure

    from exactformer.figures.style import exactformer_style

    with exactformer_style():
        figure = Figure(figsize=(13, 7.6), layout="constrained")
        for row, name in zip(figure.subplots(2, 3, sharey="row"), _RANGE, strict=True):
            _against_degree(row[0], summary, "oscillating", name)
            _against_degree(row[1], summary, "dense", name)
            _against_radius(row[2], summary, name)
            row[0].set(ylim=_RANGE[name], ylabel=f"{name}: largest error / max |Q|")
            for axes in row:
                axes.axhspan(1, _RANGE[name][1], color="#f3f4f6", zorder=0)
            row[0].text(
                0.02, 0.985, "no digit is right", transform=row[0].transAxes, va="top", fontsize=7,
                color="#6b7280",
            )  # fmt: skip
        _legend(figure)
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


def _curves(axes: Axes, cells: Sequence[Cell], place: Any) -> None:
    axes.set_yscale("log")
    for construction, (colour, marker) in _LOOK.items():
        mine = sorted((c for c in cells if c.matches({"construction": construction})), key=place)
        literal = [cell for cell in mine if "literal" in cell.metrics]
        x = [place(cell) for cell in literal]
        above = construction == "doubling"  # on the very line of scaled
        axes.plot(
            x, [c.metrics["literal bound"] for c in literal], color=colour,
            linestyle=(0, (4, 4)) if above else "-", linewidth=1.6, zorder=3 if above else 2,
        )  # fmt: skip
        axes.plot(
            x, [c.metrics["literal"] for c in literal], marker, color=colour, markersize=4.5,
            zorder=4,
        )  # fmt: skip
        if construction in _CLOSED_FORMS:
            x = [place(cell) for cell in mine]
            axes.plot(x, [c.metrics["fused bound"] for c in mine], ":", color=colour, linewidth=1.1)
            axes.plot(
                x, [c.metrics["fused"] for c in mine], marker, color=colour, markersize=6.5,
                fillstyle="none", markeredgewidth=0.7, zorder=3,
            )  # fmt: skip


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, label=construction)
        for construction, (colour, marker) in _LOOK.items()
    ]
    plain: dict[str, Any] = {"color": "#6b7280"}
    handles += [
        Line2D([], [], marker="o", linestyle="", label="observed, every matrix", **plain),
        Line2D([], [], linestyle="-", label="certified, every matrix", **plain),
        Line2D(
            [], [], marker="o", linestyle="", fillstyle="none", markersize=6.5,
            label="observed, closed form", **plain,
        ),
        Line2D([], [], linestyle=":", label="certified, closed form", **plain),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8.5)
