"""The second panel of figures 4, 5 and 6: who is connected with whom, as strongly as attention says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments.jiang_tasks_drawing import weights_map
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from exactformer.experiments.engine.cell import Metrics

RED = "#c0392b"
_VISIBLE = 0.01  # weights below this are not drawn


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
            axes.annotate(
                f"${name}_{i}$",
                (a, b),
                (5, 5),
                textcoords="offset points",
                fontsize=9,
                color=colour,
            )
    axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
    axes.margins(0.1)
    axes.set_title("(b) every u, green, with its v, red")


def segments(axes: Axes, best: Metrics) -> None:
    """Draw the sequence in a row, prediction tokens above; a line's colour is the weight."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    x, weights = np.array(best["x"]), np.array(best["attention"])
    predicting = x[:, -1] == 0
    segment = np.cumsum(predicting) - 1
    colours = (BLUE, ORANGE, GREEN)
    heads = {
        t: float(np.flatnonzero(segment == segment[t]).mean())
        for t in np.flatnonzero(predicting).tolist()
    }
    for t, middle in heads.items():
        for s in np.flatnonzero(weights[t] >= _VISIBLE).tolist():
            end = (middle, 1.0) if s == t else (float(s), 0.0)
            axes.plot(
                (middle, end[0]), (1, end[1]), lw=2.2, color=weights_map()(0.1 + weights[t, s]),
                zorder=1, solid_capstyle="round",
            )  # fmt: skip
            axes.text(s, -0.30, f"{weights[t, s]:.2f}", ha="center", fontsize=7, color=INK)
        axes.scatter(middle, 1, s=150, marker="s", color=colours[segment[t]], zorder=3)
        axes.text(middle, 1.12, f"y({t})", ha="center", fontsize=9, color=colours[segment[t]])
    for s in np.flatnonzero(~predicting).tolist():
        axes.scatter(s, 0, s=40 + 160 * x[s, -1], color=colours[segment[s]], zorder=3)
        axes.text(s, -0.18, f"x({s})", ha="center", fontsize=8, color=GREY)
        axes.text(s, -0.42, f"{_mass(x, segment, s):.2f}", ha="center", fontsize=7, color=ORANGE)
    axes.text(-0.1, -0.30, "learnt", ha="right", fontsize=7, color=INK)
    axes.text(-0.1, -0.42, "mass / total", ha="right", fontsize=7, color=ORANGE)
    axes.set(xlim=(-1.2, len(x) - 0.4), ylim=(-0.55, 1.3), xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.figure.colorbar(
        ScalarMappable(Normalize(0, 0.9), weights_map()), ax=axes, label="weight", shrink=0.7
    )
    axes.set_title("(b) segments and their prediction tokens")


def _mass(x: NDArray[Any], segment: NDArray[Any], s: int) -> float:
    return float(x[s, -1] / x[segment == segment[s], -1].sum())


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
    axes.set(xlim=(-0.6, tau - 0.4), ylim=(-0.25, 1.25), xticks=[])
    axes.set_yticks([0, 1], ["inputs", "outputs"])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("(b) outputs and the inputs they rely on")
