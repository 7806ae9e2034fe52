"""The picture of spectra-minilm: what each layer needs, and what smaller heads lose."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.figures.style import BLUE, GREY, ORANGE


def draw(summary: Summary) -> Figure:
    """Draw needed dimensions by layer, change of embeddings and order kept by head dimension."""
    figure, (needed, change, order) = subplots(13, 4, 1, 3)
    _needed(needed, summary)
    _losses(change, summary, "change", "change of sentence embeddings, held out")
    _losses(order, summary, "order", "rank correlation of similarities, held out")
    change.set_yscale("log")
    change.legend()
    return figure


def _needed(axes: Axes, summary: Summary) -> None:
    (cell,) = summary.select(what="spectra")
    layers, m = cell.metrics["layers"], cell.metrics["head_dim"]
    for share, colour, shift in (("99 %", BLUE, -0.12), ("99.9 %", ORANGE, 0.12)):
        values = cell.metrics[f"needed {share}"]
        heads = len(values) // layers
        places = [i // heads + shift + (i % heads - heads / 2) * 0.012 for i in range(len(values))]
        axes.plot(places, values, "o", color=colour, markersize=3, alpha=0.8, label=share)
    axes.axhline(m, color=GREY, lw=0.8, ls="--")
    axes.set_ylim(0, m + 2)
    axes.set_xlabel("layer")
    axes.set_ylabel("head dimension that keeps the energy")
    axes.set_title(f"{cell.metrics['heads']} heads of {m}")
    axes.legend(loc="lower right")


def _losses(axes: Axes, summary: Summary, metric: str, label: str) -> None:
    shrunk = summary.frame.query("what == 'shrink'")
    for method, name, colour in (
        ("data", "fitted to sentences", BLUE),
        ("weights", "weights only", ORANGE),
    ):
        mine = shrunk[shrunk["method"] == method]
        means = mine.groupby("head_dim")[metric].mean()
        axes.plot(means.index, means, "o-", color=colour, label=name)
        for dim, values in mine.groupby("head_dim")[metric]:
            axes.plot([dim] * len(values), values, "_", color=colour, markersize=10)
        axes.set_xticks(means.index)
    axes.set_xlabel("new head dimension, of 32")
    axes.set_ylabel(label)
