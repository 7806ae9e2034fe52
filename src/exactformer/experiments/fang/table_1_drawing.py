"""The figure of table 1: which model has which error, and what clipping does to it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from exactformer.experiments.fang.drawing import clipping_panel, printed_ring
from exactformer.experiments.fang.f2 import SIZES
from exactformer.experiments.fang.names import ERRORS, LABELS, MODELS, TEST
from exactformer.experiments.fang.networks import NETWORKS
from exactformer.figures.style import BLUE, GREY, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

_MARKERS = dict(zip(ERRORS, ("s", "o", "D"), strict=True))


def table_1(summary: Summary) -> Figure:
    """Draw errors of all models on the left, thresholds of clipping on the right."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
        _errors(left, summary)
        printed = {model: summary.row(f"{LABELS[model]}, {TEST}").printed for model in NETWORKS}
        clipping_panel(right, summary, SIZES[summary.scale].clip, printed)
    return figure


def _errors(axes: Axes, summary: Summary) -> None:
    for place, model in enumerate(MODELS):
        for shift, error in enumerate(ERRORS):
            row = summary.row(f"{LABELS[model]}, {error}")
            height = place + 0.2 * (shift - 1)
            fill = "full" if error == TEST else "none"
            if math.isfinite(row.mean):
                below = min(row.spread or 0.0, 0.9 * row.mean)  # a logarithmic axis ends above zero
                axes.errorbar(
                    row.mean,
                    height,
                    xerr=[[below], [row.spread or 0.0]],
                    fmt=_MARKERS[error],
                    color=BLUE,
                    fillstyle=fill,
                    capsize=2,
                    elinewidth=1,
                    label=error if place == 0 else None,
                )
            if row.printed is not None:
                printed_ring(axes, row.printed, height)
    if any(row.printed is not None for row in summary.rows):
        printed_ring(axes, math.nan, math.nan, label="paper")
    axes.axvline(1, color=GREY, linewidth=1, linestyle="--", label="variance of the noise")
    axes.set(xscale="log", xlabel="mean squared error (mean and spread over seeds)")
    axes.set_title(f"Learning {'f₂*' if SIZES[summary.scale].target == 'f2' else 'a part of f₂*'}")
    axes.set_yticks(range(len(MODELS)), [LABELS[model] for model in MODELS])
    axes.set_ylim(len(MODELS) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="best")
