"""The second panel of figures 4, 5 and 6: who is connected with whom, as strongly as attention says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.experiments.jiang.tasks_drawing import weights_map
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
    """Draw the sequence in a row, its prediction tokens' answers above; colours are weights."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

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
