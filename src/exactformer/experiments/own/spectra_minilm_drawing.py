"""The picture of spectra-minilm: what each layer needs, and what smaller heads lose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary


def draw(summary: Summary) -> Figure:
    """Draw needed dimensions by layer, change of embeddings and order kept by head dimension."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import exactformer_style

    with exactformer_style():
        figure = Figure(figsize=(13, 4), layout="constrained")
        needed, change, order = figure.subplots(1, 3)
        _needed(needed, summary)
        _losses(change, summary, "change", "change of sentence embeddings, held out")
        _losses(order, summary, "order", "rank correlation of similarities, held out")
        change.set_yscale("log")
        change.legend()
    return figure


def _needed(axes: Axes, summary: Summary) -> None:
    from exactformer.figures.style import BLUE, GREY, ORANGE

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
    from exactformer.figures.style import BLUE, ORANGE

    for method, name, colour in (
        ("data", "fitted to sentences", BLUE),
        ("weights", "weights only", ORANGE),
    ):
        by_dim: dict[int, list[Any]] = {}
        for cell in summary.select(what="shrink", method=method):
            by_dim.setdefault(cell.parameters["head_dim"], []).append(cell.metrics[metric])
        dims = sorted(by_dim)
        means = [sum(by_dim[r]) / len(by_dim[r]) for r in dims]
        axes.plot(dims, means, "o-", color=colour, label=name)
        for r in dims:
            axes.plot([r] * len(by_dim[r]), by_dim[r], "_", color=colour, markersize=10)
        axes.set_xticks(dims)
    axes.set_xlabel("new head dimension, of 32")
    axes.set_ylabel(label)
