"""The figure of figure 3: errors over the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.fang.drawing import band, printed_ring
from exactformer.experiments.fang.names import COLOURS, LABELS, TEST, TRAIN
from exactformer.experiments.fang.networks import NETWORKS
from exactformer.experiments.fang.table_1 import EPOCHS, PRINTED
from exactformer.figures.style import GREY, ORANGE, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

_TITLES = (
    "Training error (noisy labels)",
    "Test error (clean target)",
    "Generalisation gap (noisy labels)",
)
_AXES = ("training MSE", "test MSE", "|test − training MSE|")


def figure_3(summary: Summary) -> Figure:
    """Draw three panels over the epochs: the mean over seeds within their range."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(11, 4), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True)
        for model in NETWORKS:
            curves = [cell.metrics["curve"] for cell in summary.select(model=model)]
            length = min(len(curve["epoch"]) for curve in curves)  # a diverged run ends early
            epochs = curves[0]["epoch"][:length]
            train, test, noisy = (
                np.array([curve[name][:length] for curve in curves])
                for name in ("train", "test", "test_noisy")
            )
            for axes, values in zip(panels, (train, test, np.abs(noisy - train)), strict=True):
                band(axes, epochs, values, COLOURS[model], LABELS[model])
        for axes, title, label in zip(panels, _TITLES, _AXES, strict=True):
            axes.set(xscale="log", yscale="log", xlabel="epoch", ylabel=label, title=title)
        panels[0].axhline(1, color=GREY, linewidth=1, linestyle="--", label="variance of the noise")
        _convergence(panels[0], summary)
        if summary.scale is Scale.PAPER:
            for (_, row), (value, _) in PRINTED.items():
                if row in (TRAIN, TEST):
                    printed_ring(panels[(TRAIN, TEST).index(row)], epochs[-1], value, clip_on=False)
            printed_ring(panels[0], np.nan, np.nan, label="paper, at the end")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def _convergence(axes: Axes, summary: Summary) -> None:
    """Mark along the bottom where the paper's rule calls a network converged: ours and printed."""
    bottom = axes.get_xaxis_transform()
    for model in NETWORKS:
        row = summary.row(f"{LABELS[model]}, {EPOCHS}")
        axes.plot(
            row.values, [0.03] * len(row.values), "|", color=COLOURS[model], markersize=9,
            transform=bottom,
        )  # fmt: skip
        if row.printed is not None:
            axes.plot(
                row.printed, 0.03, "v", color=COLOURS[model], markeredgecolor=ORANGE, markersize=7,
                transform=bottom,
            )  # fmt: skip
    axes.plot([], [], "|", color=GREY, markersize=9, label="converged by the paper's rule")
    if summary.scale is Scale.PAPER:
        axes.plot(
            [], [], "v", color=GREY, markeredgecolor=ORANGE, markersize=7, label="the same, printed"
        )
