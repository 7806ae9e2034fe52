"""Figure 3 drawn as in the paper, once for each regime: spectra by head size and the training error."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.core.words import plural
from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.figure_3 import PUBLISHED, REGIMES, curve, law
from exactformer.figures.style import BLUE, GREY, ORANGE

_FAINT = 1e-4
"""Shares of σ₁ below this are not drawn."""


def head_size_figure(summary: Summary) -> Figure:
    """Draw one row for each regime: spectra on the left, training error on the right."""
    figure, panels = subplots(10.5, 3.9 * len(REGIMES), len(REGIMES), 2, squeeze=False)
    for regime, (left, right) in zip(REGIMES, panels, strict=True):
        (cell,) = summary.select(regime=regime)
        _spectra(left, cell)
        _errors(right, cell)
    return figure


def _described(cell: Cell) -> str:
    p = cell.parameters
    heads = "one head" if p["heads"] == 1 else f"{p['heads']} heads"
    rest = "with feed-forward" if p["hidden"] else "no feed-forward"
    return f"{plural(p['layers'], 'layer')}, {heads}, {rest}"


def _spectra(axes: Axes, cell: Cell) -> None:
    sizes = cell.parameters["sizes"]
    colours = matplotlib.colormaps["viridis"](np.linspace(0.92, 0.05, len(sizes)))
    for m, colour, spectra in zip(sizes, colours, cell.metrics["spectra"], strict=True):
        for place, values in enumerate(spectra):
            share = np.array(values) / values[0]
            share = np.where(share > _FAINT, share, np.nan)
            label = f"{m}" if place == 0 else None
            k = np.arange(1, len(values) + 1)
            axes.plot(k, share, color=colour, lw=1.2, marker="." if m < 4 else None, label=label)
    axes.set(xscale="log", yscale="log", xlabel="k", ylabel="mean σ$_k$ / mean σ$_1$")
    axes.set_title(
        f"{cell.parameters['regime']}: spectra, first head of the last layer", fontsize=9
    )
    axes.legend(title="head size $m_h$", fontsize=8, title_fontsize=8, ncols=2, loc="lower left")


def _errors(axes: Axes, cell: Cell) -> None:
    errors, found = curve(cell), law(cell)
    sizes = np.array(list(errors), dtype=np.float64)
    means = np.array([np.mean(values) for values in errors.values()])
    for size, values in errors.items():
        axes.plot([size] * len(values), values, "_", color=BLUE, ms=9, mew=1.2)
    axes.plot(sizes, means, "o", color=BLUE, ms=4.5, label="mean of the seeds")
    m = np.geomspace(sizes[0], sizes[-1])
    if found.verdict == "flat":
        label = "flat within the spread of seeds: no power law"
        axes.axhline(float(np.mean(means)), color=GREY, ls="--", lw=1.2, label=label)
    else:
        low, high = found.interval
        reach = f"{low:.2f} to {'∞' if np.isinf(high) else f'{high:.2f}'}"
        name = {"bent": "misses the means", "rising": "rises"}.get(found.verdict, "power law")
        label = f"{found.a:.2g}·$m_h^{{-{found.b:.2f}}}$ + {found.c:.3g}  (b: {reach}; {name})"
        axes.plot(m, found(m), color=ORANGE, lw=1.5, label=label)
        a, c = np.polyfit(sizes**-PUBLISHED, means, 1)
        axes.plot(
            m,
            a * m**-PUBLISHED + c,
            ":",
            color=GREY,
            lw=1.3,
            label=f"b = {PUBLISHED}, as the paper's",
        )
    axes.set(xscale="log", xlabel="head size $m_h$", ylabel="training error (cross-entropy)")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_title(f"{cell.parameters['regime']}: {_described(cell)}", fontsize=9)
    axes.legend(fontsize=8)
