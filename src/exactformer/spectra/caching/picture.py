"""A picture of ranks by layer, and of what each layer loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exactformer.figures.style import BLUE, GREY, ORANGE, PALE, exactformer_style, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.spectra.caching.report import CacheReport


def draw(report: CacheReport) -> Figure:
    """Draw ranks as bars, and predicted losses of layers."""
    places = range(len(report.layers))
    with exactformer_style():
        figure, (ranks, losses) = subplots(10, 3.6, 1, 2)
        ranks.bar(places, [layer.state for layer in report.layers], color=PALE, label="before")
        ranks.bar(places, [sum(layer.ranks) for layer in report.layers], color=BLUE, label="after")
        ranks.set(xlabel="layer", ylabel="numbers in the cache for a token")
        ranks.legend()
        losses.plot(places, [x.predicted for x in report.layers], "o-", color=ORANGE, ms=3)
        losses.set(xlabel="layer", ylabel="predicted loss, nats for each token")
        losses.axhline(0, color=GREY, lw=0.8)
        change = f"{report.perplexity.before:.2f} → {report.perplexity.after:.2f}"
        figure.suptitle(f"{report.model}, {report.method}: perplexity {change}", fontsize=10)
    return figure
