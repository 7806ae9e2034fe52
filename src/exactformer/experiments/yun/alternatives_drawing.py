"""The figure of yun-alternatives: what each model reaches, and which layers tell contexts apart."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.yun.alternatives import MODELS
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE

_COLOURS = dict(zip(MODELS, (BLUE, ORANGE, GREEN, INK, GREY), strict=True))
_MARKERS = dict(zip(MODELS, "osD^v", strict=True))


def alternatives_figure(summary: Summary) -> Figure:
    """Draw results above, a ring for every seed and a bar for the mean; layers below, by depth."""
    figure, ((words, patches), below) = subplots(10.5, 6.4, 2, 2)
    _results(words, summary, "words", "perplexity")
    words.set(title="Masked words", xlabel="perplexity on the test split (lower is better)")
    _results(patches, summary, "patches", "accuracy")
    patches.set(title="Image patches", xlabel="share of test images named rightly")
    for axes, task in zip(below, ("words", "patches"), strict=True):
        _layers(axes, summary, task)
    below[0].set_title("Layers, words in sentences")
    below[1].set_title("Layers, patches when one is changed")
    handles, labels = below[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(MODELS))
    return figure


def _results(axes: Axes, summary: Summary, task: str, metric: str) -> None:
    for place, (model, colour) in enumerate(_COLOURS.items()):
        values = [float(c.metrics[metric]) for c in summary.select(task=task, model=model)]
        axes.plot(values, [place] * len(values), "o", color=colour, fillstyle="none")
        axes.plot(np.mean(values), place, "|", color=colour, markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(MODELS)), list(MODELS))
    axes.set_ylim(len(MODELS) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _layers(axes: Axes, summary: Summary, task: str) -> None:
    for model, colour in _COLOURS.items():
        shared = np.array([c.metrics["shared"] for c in summary.select(task=task, model=model)])
        depth = np.arange(1, shared.shape[1] + 1)
        axes.plot(
            depth + 0.03 * (list(MODELS).index(model) - 2),  # lines at zero lie on each other
            100 * shared.mean(axis=0),
            marker=_MARKERS[model],
            markersize=6,
            fillstyle="none",
            linewidth=1.2,
            color=colour,
            label=model,
        )
    axes.set_xticks(depth)
    axes.set(xlabel="layer", ylabel="tokens without a code\nof their own (%)")
