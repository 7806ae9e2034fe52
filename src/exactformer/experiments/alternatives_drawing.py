"""The figure of yun-alternatives: what each model reaches, and which layers tell contexts apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.experiments.yun_alternatives import MODELS
from exactformer.figures.style import GREY, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary


def alternatives_figure(summary: Summary) -> Figure:
    """Draw results above, every seed a ring and the mean a bar; layers below, by depth."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(10.5, 6.4), layout="constrained")
        above, below = figure.subplots(2, 2)
        _results(
            above[0], summary, "words", "perplexity", "Masked words", "perplexity (lower is better)"
        )
        _results(
            above[1],
            summary,
            "patches",
            "accuracy",
            "Image patches",
            "share of test images named rightly",
        )
        _layers(below[0], summary, "words", "Words in sentences")
        _layers(below[1], summary, "patches", "Patches in images")
        handles, labels = below[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(MODELS))
    return figure


def _results(axes: Axes, summary: Summary, task: str, metric: str, title: str, xlabel: str) -> None:
    for place, model in enumerate(MODELS):
        values = [float(c.metrics[metric]) for c in summary.select(task=task, model=model)]
        colour = f"C{place}"
        axes.plot(values, [place] * len(values), "o", color=colour, fillstyle="none")
        axes.plot(np.mean(values), place, "|", color=colour, markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(MODELS)), list(MODELS))
    axes.set_ylim(len(MODELS) - 0.5, -0.5)
    axes.set(title=title, xlabel=f"{xlabel}; ring: seed, bar: mean")
    axes.grid(axis="y", visible=False)


def _layers(axes: Axes, summary: Summary, task: str, title: str) -> None:
    for place, model in enumerate(MODELS):
        shared = np.array([c.metrics["shared"] for c in summary.select(task=task, model=model)])
        depth = np.arange(1, shared.shape[1] + 1)
        axes.plot(depth, 100 * shared.mean(axis=0), "o-", color=f"C{place}", label=model)
    axes.set_xticks(depth)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.set(title=title, xlabel="layer", ylabel="tokens without a code\nof their own (%)")
