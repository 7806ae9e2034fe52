"""The figure of ``jiang-mixing``: the coupling before and after, its singular values, the filters."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.mixing import COUPLING, FILTER, PUBLISHED, PUBLISHED_RNN, rho
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, diverging


def draw(summary: Summary) -> Figure:
    """Draw the coupling before and after, its singular values by strength, and the filters."""
    figure, (before, after, curves, filters) = subplots(
        14, 3.8, 1, 4, width_ratios=(1, 1, 1.35, 1.35)
    )
    (cell,) = summary.select(part=COUPLING)
    _picture(before, 0.0)
    image = _picture(after, 1.0)
    figure.colorbar(image, ax=after, shrink=0.75)
    _curves(curves, cell)
    _filters(filters, summary)
    return figure


def _picture(axes: Axes, strength: float) -> Any:
    grid = np.linspace(0.0, 1.0, 201)
    values = rho(grid[:, None], grid[None, :] + strength * grid[:, None])
    look: Any = {"origin": "lower", "extent": (0, 1, 0, 1), "cmap": diverging()}
    image = axes.imshow(values.T, vmin=-3, vmax=3, **look)
    mixed = r"$\rho(x_1,\ x_2 + x_1)$: rank 3" if strength else r"$\rho(x_1,\ x_2)$: rank 2"
    axes.set(title=mixed, xlabel="$x_1$", ylabel="$x_2$", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.grid(False)
    return image


def _curves(axes: Axes, cell: Cell) -> None:
    strengths, metrics = cell.parameters["strengths"], cell.metrics
    shown = range(0, len(strengths), max(1, len(strengths) // 20))
    for k, colour in enumerate((BLUE, ORANGE, GREEN)):
        axes.plot(strengths, [values[k] for values in metrics["closed"]], color=colour, lw=1)
        x, y = zip(*((strengths[i], metrics["computed"][i][k]) for i in shown), strict=True)
        axes.plot(x, y, "o", color=colour, markersize=4, label=rf"$\sigma_{k + 1}$")
    axes.plot([1.0] * 3, PUBLISHED, "x", color=INK, markersize=9, mew=1.5, label="printed")
    axes.set(xlabel=r"$a$ in $x_2 + a\,x_1$; lines: closed form", ylim=(-0.03, 1.35))
    axes.set_title("singular values by strength of mixing")
    axes.legend(loc="center left", fontsize=8)


def _filters(axes: Axes, summary: Summary) -> None:
    for causal, name, colour in (
        (False, "filter as printed", ORANGE),
        (True, "causal filter: 0, rounded", BLUE),
    ):
        found = sorted(
            max(cell.metrics["floor"], 1e-33) for cell in summary.select(part=FILTER, causal=causal)
        )
        axes.semilogy(range(1, len(found) + 1), found, "o", color=colour, label=name)
    axes.axhline(PUBLISHED_RNN, color=GREY, lw=1, ls="--")
    axes.text(1, PUBLISHED_RNN * 3, "printed for a trained RNN: 1.58e-7", color=GREY, fontsize=8)
    axes.set(xlabel="filter, by its error", ylabel="mean squared error", ylim=(1e-34, 1e2))
    axes.set_title("least error of linear RNNs, random filters")
    axes.legend(loc="center right", fontsize=8)
