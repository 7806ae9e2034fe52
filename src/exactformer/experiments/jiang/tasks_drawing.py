"""Figures 4, 5 and 6 as the paper draws them: attention, the relation it makes, F̂ ∘ f̂; and errors.

The second panel shows who is connected with whom, as strongly as attention says.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from exactformer.experiments import Metrics, Summary
from exactformer.experiments.jiang.tasks import constructed
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PALE, subplots

RED = "#c0392b"
_VISIBLE = 0.01  # weights below this are not drawn
_CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}

Panel = Callable[[Axes, Metrics], None]


def task_figure(name: str, relation: Panel, composition: Panel) -> Callable[[Summary], Figure]:
    """Return the drawing of a task: the best model of the first ensemble, and the errors of all."""

    def draw(summary: Summary) -> Figure:
        (first, *_) = summary.select(kind="trained")
        figure, ((matrix, related), (composed, errors)) = subplots(9.6, 8.2, 2, 2)
        figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.1)
        attention_matrix(matrix, first.metrics)
        relation(related, first.metrics)
        composition(composed, first.metrics)
        error_panel(errors, summary)
        figure.suptitle(name, x=0.01, ha="left")
        return figure

    return draw


def weights_map() -> Colormap:
    """Return the colours of weights between 0 and 1: white to blue."""
    return LinearSegmentedColormap.from_list("weights", ["#ffffff", "#a9c8e8", BLUE, "#0f3a6b"])


def attention_matrix(axes: Axes, best: Metrics) -> None:
    """Draw Â with its numbers, and a frame where A has weight."""
    weights, meant = np.array(best["attention"]), np.array(best["meant"])
    tau = len(weights)
    axes.pcolormesh(weights, cmap=weights_map(), vmin=0, vmax=1, edgecolors=PALE, linewidth=0.5)
    for (t, s), value in np.ndenumerate(weights):
        if value >= 0.005:
            colour = "white" if value > 0.55 else INK
            axes.text(s + 0.5, t + 0.5, f"{value:.2f}", color=colour, **_CENTRED)
        if meant[t, s] > 0:
            frame = Rectangle((s + 0.05, t + 0.05), 0.9, 0.9, fill=False, ec=ORANGE, lw=1.4)
            axes.add_patch(frame)
    axes.set(xlim=(0, tau), ylim=(tau, 0), aspect="equal", xlabel="key s", ylabel="query t")
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(np.arange(tau) + 0.5, [str(i) for i in range(tau)])
    axes.grid(False)
    axes.tick_params(length=0)
    axes.set_title("(a) learnt attention; framed: where it should be")


def identity_scatter(axes: Axes, best: Metrics) -> None:
    """Draw F̂ ∘ f̂ against what it should be, one colour per coordinate."""
    at, learnt = np.array(best["at"]), np.array(best["learnt"])
    ends = (min(at.min(), learnt.min()), max(at.max(), learnt.max()))
    axes.plot(ends, ends, color=GREY, lw=1, zorder=1)
    for i, (colour, marker) in enumerate(zip((BLUE, ORANGE), "o^", strict=False)):
        if i < at.shape[1]:
            look: Any = {"color": colour, "ms": 3, "alpha": 0.5, "mew": 0}
            axes.plot(at[:600, i], learnt[:600, i], marker, label=f"coordinate {i + 1}", **look)
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
    label = f"constructed, head size {built[0].metrics['rank']:.0f}"
    axes.plot(sharpness, [cell.metrics["mse"] for cell in built], "o-", color=ORANGE, label=label)
    looks: Any = ({"color": BLUE}, {"color": GREY, "ls": "--"})
    for cell, look in zip(summary.select(kind="trained"), looks, strict=False):
        models, head = cell.parameters["models"], cell.parameters["head_dim"]
        words = f"trained, head size {head}, {models} seeds"
        if cell.parameters["task"].get("unit_indices") is False:
            words += "; indices as numbers"
        for i, value in enumerate(cell.metrics["mse"]):
            axes.axhline(value, lw=0.9, alpha=0.8, label=None if i else words, **look)
    axes.set(xscale="log", yscale="log", xlabel="sharpness λ", ylabel="mean squared error")
    axes.set_xticks(sharpness, [f"{value:g}" for value in sharpness])
    axes.minorticks_off()
    axes.set_title("(d) what is possible, what was found")
    axes.legend()


def nearest_points(axes: Axes, best: Metrics) -> None:
    """Draw U in green and V in red; a line's strength is the weight that u gives to v."""
    x, weights = np.array(best["x"]), np.array(best["attention"])
    dim = x.shape[1] // 2
    if dim == 1:
        x = np.stack([x[:, 0], np.ones(len(x)), x[:, 1], np.zeros(len(x))], axis=1)
    u, v = x[:, :2], x[:, 2:4]
    for t, s in zip(*np.nonzero(weights >= _VISIBLE), strict=True):
        weight = float(weights[t, s])
        line = [(u[t, i], v[s, i]) for i in (0, 1)]
        axes.plot(*line, color=INK, lw=0.5 + 2 * weight, alpha=0.15 + 0.75 * weight, zorder=1)
    for place, colour, name in ((u, GREEN, "u"), (v, RED, "v")):
        axes.scatter(
            place[:, 0], place[:, 1], s=60, color=colour, edgecolor="white", linewidth=1, zorder=3
        )
        for i, (a, b) in enumerate(place):
            look: Any = {"textcoords": "offset points", "fontsize": 9, "color": colour}
            axes.annotate(f"${name}_{i}$", (a, b), (5, 5), **look)
    axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
    axes.margins(0.1)
    axes.set_title("(b) every u, green, with its v, red")


def segments(axes: Axes, best: Metrics) -> None:
    """Draw the sequence in a row, its prediction tokens' answers above; colours are weights."""
    x, weights, meant = (np.array(best[name]) for name in ("x", "attention", "meant"))
    predicting, segment = x[:, -1] == 0, np.cumsum(x[:, -1] == 0) - 1
    shades, colours = weights_map(), (BLUE, ORANGE, GREEN)
    for t in np.flatnonzero(predicting).tolist():
        middle, colour = float(np.flatnonzero(segment == segment[t]).mean()), colours[segment[t]]
        for s in np.flatnonzero(weights[t] >= _VISIBLE).tolist():
            axes.plot((middle, s), (1, 0), lw=2.2, color=shades(0.1 + weights[t, s]), zorder=1)
        axes.scatter(middle, 1, s=150, marker="s", color=colour, zorder=3)
        axes.text(middle, 1.1, f"y({t})", ha="center", fontsize=9, color=colour)
        for s in np.flatnonzero(segment == segment[t]).tolist():
            axes.text(s, -0.29, f"{weights[t, s]:.2f}", ha="center", fontsize=7, color=INK)
            axes.text(s, -0.40, f"{meant[t, s]:.2f}", ha="center", fontsize=7, color=GREY)
    for s, (*_, mass) in enumerate(x):
        look = {"marker": "s", "s": 60, "color": "white"} if mass == 0 else {"s": 40 + 160 * mass}
        axes.scatter(
            s, 0, **{"color": colours[segment[s]], **look}, ec=colours[segment[s]], zorder=3
        )
        axes.text(s, -0.17, f"x({s})", ha="center", fontsize=8, color=INK)
    for height, word, colour in ((-0.29, "learnt", INK), (-0.40, "meant", GREY)):
        axes.text(-0.6, height, word, ha="right", fontsize=7, color=colour)
    axes.set(xlim=(-1.6, len(x) - 0.5), ylim=(-0.5, 1.25))
    _bare(axes)
    axes.figure.colorbar(
        ScalarMappable(Normalize(0, 0.9), shades), ax=axes, label="weight", shrink=0.7
    )
    axes.set_title("(b) segments; squares: prediction tokens")


def selections(axes: Axes, best: Metrics) -> None:
    """Draw outputs above inputs; a line's strength is the weight that the output gives."""
    weights = np.array(best["attention"])
    tau = len(weights)
    for t, s in zip(*np.nonzero(weights >= _VISIBLE), strict=True):
        weight = float(weights[t, s])
        axes.plot((t, s), (1, 0), color=INK, lw=0.4 + 2.6 * weight, alpha=0.15 + 0.8 * weight)
    for row, (colour, name, align) in enumerate(((RED, "v", "top"), (GREEN, "y", "bottom"))):
        axes.scatter(range(tau), [row] * tau, s=70, color=colour, zorder=3, edgecolor="white")
        for i in range(tau):
            axes.text(i, 1.07 if row else -0.07, f"{name}({i})", ha="center", va=align, fontsize=8)
    axes.set(xlim=(-0.6, tau - 0.4), ylim=(-0.25, 1.25))
    _bare(axes)
    axes.set_title("(b) outputs, green, and the inputs they rely on")


def _bare(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


nearest_point = task_figure("Nearest point to a set", nearest_points, identity_scatter)
centre_of_gravity = task_figure("Centre of gravity, by segments", segments, norm_contours)
average_by_selection = task_figure("Average by selection", selections, identity_scatter)
