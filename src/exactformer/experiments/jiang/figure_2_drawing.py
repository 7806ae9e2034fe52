"""Figure 2 drawn for two models: a violin for every singular value of a head, beside the control."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.figure_2 import NAMES
from exactformer.figures.style import BLUE, GREY, ORANGE

_RESOLVED = 1e-6
"""Values below this share of the largest are rounding, and not drawn."""


def violins(summary: Summary) -> Figure:
    """Draw first and last layer of each model, one row a model."""
    figure, panels = subplots(12, 7.2, len(NAMES), 2)
    for row, (model, name) in zip(panels, NAMES.items(), strict=True):
        (cell,) = summary.select(model=model)
        last = cell.metrics["layers"] - 1
        for place, (axes, layer) in enumerate(zip(row, (0, last), strict=True)):
            samples = np.array(cell.metrics["violins"][place])
            control = np.array(cell.metrics["control means"][place])
            _panel(axes, samples, control)
            which = "first" if layer == 0 else "last"
            axes.set_title(f"{name}: first head of the {which} layer", fontsize=9)
    panels[0, 0].legend(fontsize=8)
    return figure


def _panel(axes: Axes, samples: Any, control: Any) -> None:
    """One violin for each k over inputs, of log σ_k."""
    floor = _RESOLVED * samples.max()
    places, parts = [], []
    for number, values in enumerate(samples.T, start=1):
        seen = values[values > floor]
        if len(seen) > 1 and np.ptp(seen) > 0:
            places.append(number)
            parts.append(np.log10(seen))
    bodies: Any = axes.violinplot(parts, places, widths=0.9, showextrema=False, points=50)
    for body in bodies["bodies"]:
        body.set(facecolor=BLUE, alpha=0.55, edgecolor="none")
    k = np.arange(1, samples.shape[1] + 1)
    means, others = (np.where(v > floor, v, np.nan) for v in (samples.mean(axis=0), control))
    axes.plot(k, np.log10(means), ".", color=ORANGE, ms=4, label="mean over inputs")
    axes.plot(k, np.log10(others), "--", color=GREY, lw=1.2, label="control: weights drawn anew")
    low, high = (int(f(v)) for f, v in zip((np.floor, np.ceil), axes.get_ylim(), strict=True))
    ticks = range(low, high + 1, max(1, (high - low) // 5))
    axes.set_yticks(list(ticks), [f"$10^{{{t}}}$" for t in ticks])
    axes.set(xlabel="k", ylabel="σ$_k$ of the scores")
