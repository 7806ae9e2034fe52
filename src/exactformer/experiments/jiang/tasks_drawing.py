"""Figures 4, 5 and 6 as the paper draws them: attention, the relation it makes, F̂ ∘ f̂; and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.jiang.tasks import constructed
from exactformer.figures.style import BLUE, GREY, INK, ORANGE, PALE, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.cell import Metrics
    from exactformer.experiments.engine.summary import Summary

Panel = Callable[["Axes", "Metrics"], None]


def task_figure(summary: Summary, name: str, relation: Panel, composition: Panel) -> Figure:
    """Draw the best model of the first ensemble, and the errors of all."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    (first, *_) = summary.select(kind="trained")
    with exactformer_style():
        figure = Figure(figsize=(9.6, 8.2), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1))
        (matrix, related), (composed, errors) = figure.subplots(2, 2)
        attention_matrix(matrix, first.metrics)
        relation(related, first.metrics)
        composition(composed, first.metrics)
        error_panel(errors, summary)
        figure.suptitle(name, x=0.01, ha="left")
    return figure


def weights_map() -> Colormap:
    """Return the colours of weights between 0 and 1: white to blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", ["#ffffff", "#a9c8e8", BLUE, "#0f3a6b"])


def attention_matrix(axes: Axes, best: Metrics) -> None:
    """Draw Â with its numbers, and a frame where A has weight."""
    from matplotlib.patches import Rectangle

    weights, meant = np.array(best["attention"]), np.array(best["meant"])
    tau = len(weights)
    axes.pcolormesh(weights, cmap=weights_map(), vmin=0, vmax=1, edgecolors=PALE, linewidth=0.5)
    for (t, s), value in np.ndenumerate(weights):
        if value >= 0.005:
            axes.text(
                s + 0.5, t + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=7,
                color="white" if value > 0.55 else INK,
            )  # fmt: skip
        if meant[t, s] > 0:
            frame = Rectangle((s + 0.05, t + 0.05), 0.9, 0.9, fill=False, ec=ORANGE, lw=1.4)
            axes.add_patch(frame)
    axes.set(
        xlim=(0, tau), ylim=(tau, 0), aspect="equal", xlabel="key s", ylabel="query t",
        xticks=np.arange(tau) + 0.5, yticks=np.arange(tau) + 0.5,
    )  # fmt: skip
    for ticks in (axes.set_xticklabels, axes.set_yticklabels):
        ticks([str(i) for i in range(tau)])
    axes.grid(False)
    axes.tick_params(length=0)
    axes.set_title("(a) learnt attention; framed: where it should be")


def identity_scatter(axes: Axes, best: Metrics) -> None:
    """Draw F̂ ∘ f̂ against what it should be, one colour a coordinate."""
    at, learnt = np.array(best["at"]), np.array(best["learnt"])
    ends = (min(at.min(), learnt.min()), max(at.max(), learnt.max()))
    axes.plot(ends, ends, color=GREY, lw=1, zorder=1)
    for i, (colour, marker) in enumerate(zip((BLUE, ORANGE), "o^", strict=False)):
        if i < at.shape[1]:
            axes.plot(
                at[:600, i], learnt[:600, i], marker, color=colour, ms=3, alpha=0.5, mew=0,
                label=f"coordinate {i + 1}",
            )  # fmt: skip
    axes.set(xlabel="v", ylabel=r"$\hat F\circ\hat f$", aspect="equal")
    axes.set_title(r"(c) $\hat F\circ\hat f$ at random tokens: $F\circ f(x) = v$")
    axes.legend()


def norm_contours(axes: Axes, best: Metrics) -> None:
    """Draw the contours of F̂ ∘ f̂ over the plane, and those of the norm dashed."""
    at, learnt = np.array(best["at"]), np.array(best["learnt"])[:, 0]
    levels = np.arange(0.2, 1.3, 0.2)
    drawn = axes.tricontourf(
        at[:, 0], at[:, 1], learnt, levels=np.arange(0, 1.5, 0.1), cmap=weights_map(), extend="both"
    )
    side = np.linspace(-1, 1, 101)
    norm = np.hypot(*np.meshgrid(side, side))
    circles = axes.contour(side, side, norm, levels=levels, colors=ORANGE, linewidths=1)
    axes.clabel(circles, fmt="%.1f", fontsize=7)
    axes.figure.colorbar(drawn, ax=axes, label=r"$\hat F\circ\hat f$", shrink=0.85)
    axes.set(xlabel=r"$x_1$", ylabel=r"$x_2$", aspect="equal", xlim=(-1, 1), ylim=(-1, 1))
    axes.grid(False)
    axes.set_title(r"(c) $\hat F\circ\hat f$ at random tokens; lines: $|x|$")


def error_panel(axes: Axes, summary: Summary) -> None:
    """Draw mean squared errors: constructions by sharpness, trained models as lines."""
    built = constructed(summary)
    sharpness = [cell.parameters["sharpness"] for cell in built]
    axes.plot(
        sharpness,
        [cell.metrics["mse"] for cell in built],
        "o-", color=ORANGE, label=f"constructed, head size {built[0].metrics['rank']:.0f}",
    )  # fmt: skip
    for cell, colour, style in zip(
        summary.select(kind="trained"), (BLUE, GREY), ("-", "--"), strict=False
    ):
        for i, value in enumerate(cell.metrics["mse"]):
            label = _trained_label(cell.parameters) if i == 0 else None
            axes.axhline(value, color=colour, lw=0.9, ls=style, alpha=0.8, label=label)
    axes.set(xscale="log", yscale="log", xlabel="sharpness λ", ylabel="mean squared error")
    axes.set_xticks(sharpness, [f"{value:g}" for value in sharpness])
    axes.minorticks_off()
    axes.set_title("(d) what is possible, what was found")
    axes.legend()


def _trained_label(parameters: Any) -> str:
    head = f"trained, head size {parameters['head_dim']}, {parameters['models']} seeds"
    numbers = parameters["task"].get("unit_indices") is False
    return f"{head}; indices as numbers" if numbers else head
