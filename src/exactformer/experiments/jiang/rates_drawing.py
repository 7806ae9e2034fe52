"""Figure 1 drawn as in the paper, with four curves where it has one.

Below the break lies what rounding in float32 leaves of an exact model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from exactformer.experiments import Cell, Summary
from exactformer.experiments.jiang.rates import ALPHAS, TERMS
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, subplots

_COLOURS = dict(zip(TERMS, (BLUE, ORANGE, GREEN), strict=True))
_LOOKS: dict[str, dict[str, Any]] = {
    "theory's tail": {"ls": "--", "lw": 1.1},
    "constructed": {"ls": "-", "lw": 1.8, "marker": "o", "ms": 4.5},
    "warm-started": {"ls": "-", "lw": 1.1, "marker": "s", "ms": 5, "fillstyle": "none"},
    "from scratch": {"ls": "-.", "lw": 1.1, "marker": "^", "ms": 5, "fillstyle": "none"},
}
_ABOVE, _BELOW = (2e-8, 20.0), (2e-16, 4e-14)


def rates_figure(summary: Summary) -> Figure:
    """Draw error against head size, one panel for each α."""
    figure, panels = subplots(11, 6.2, 2, 2, sharex="col", height_ratios=(6, 1))
    figure.set_layout_engine("constrained", hspace=0.01)
    for letter, alpha, (above, below) in zip("ab", ALPHAS, panels.T, strict=True):
        cells = {c.parameters["kind"]: c for c in summary.select(alpha=alpha)}
        for axes in (above, below):
            _panel(axes, alpha, cells)
        # Bounds leave rounding out, which is all there is below the break.
        built = cells["constructed"]
        for rank, colour in _COLOURS.items():
            bounds = built.metrics["bound"][rank]
            above.plot(built.parameters["heads"], bounds, color=colour, lw=0.7, alpha=0.6)
        _break(above, below)
        above.set_title(f"({letter})  $\\sigma_k = k^{{-{alpha:g}}}$")
        below.set_xlabel("head size $m_h$")
    panels[0, 0].set_ylabel("mean squared error, held-out sequences")
    panels[1, 0].set_ylabel("float32")
    _legend(figure, starts=summary.select(kind="scratch")[0].parameters["starts"])
    return figure


def _panel(axes: Axes, alpha: float, cells: dict[str, Cell]) -> None:
    heads = cells["scratch"].parameters["heads"]
    axes.set(xscale="log", yscale="log", xlim=(heads[0] * 0.92, heads[-1] * 1.09))
    axes.set_xticks(heads, [str(m) for m in heads])
    axes.minorticks_off()
    m = np.geomspace(heads[0], heads[-1])
    axes.plot(m, m ** (1 - 2 * alpha), ls=":", lw=1.6, color=GREY, zorder=1)
    built = cells["constructed"]
    for rank, colour in _COLOURS.items():
        drawn: dict[str, tuple[Sequence[int], Any]] = {
            "theory's tail": (built.parameters["heads"], built.metrics["tail"][rank]),
            "constructed": (built.parameters["heads"], built.metrics["float32"][rank]),
            "warm-started": (heads, cells["warm"].metrics["mse"][rank]),
        }
        starts = np.array(cells["scratch"].metrics["mse"][rank])
        best, worst = np.fmin.reduce(starts, axis=1), np.fmax.reduce(starts, axis=1)
        drawn["from scratch"] = (heads, best)
        axes.fill_between(heads, best, worst, color=colour, alpha=0.1, lw=0)
        for name, (x, y) in drawn.items():
            axes.plot(x, np.where(np.asarray(y) > 0, y, np.nan), color=colour, **_LOOKS[name])
    axes.axhline(built.metrics["formula in float32"]["2"], color=INK, lw=0.8, ls=(0, (1, 3)))


def _break(above: Axes, below: Axes) -> None:
    above.set_ylim(_ABOVE)
    below.set_ylim(_BELOW)
    below.set_yticks([1e-15, 1e-14])
    above.spines["bottom"].set_visible(False)
    above.tick_params(axis="x", which="both", length=0, labelbottom=False)
    mark: dict[str, Any] = {"marker": [(-1, -0.6), (1, 0.6)], "ms": 7, "ls": ""}
    mark |= {"color": GREY, "mew": 1, "clip_on": False}
    above.plot([0], [0], transform=above.transAxes, **mark)
    below.plot([0], [1], transform=below.transAxes, **mark)


def _legend(figure: Figure, starts: int) -> None:
    names = {"from scratch": f"from scratch, best of {starts}"}
    handles: list[Any] = [Patch(color=c, label=f"rank {rank}") for rank, c in _COLOURS.items()]
    handles += [
        Line2D([], [], color=INK, label=names.get(name, name), **look)
        for name, look in _LOOKS.items()
    ]
    handles += [
        Patch(color=INK, alpha=0.1, label="from scratch, all starts"),
        Line2D([], [], color=INK, lw=0.7, alpha=0.6, label="bound on the constructed"),
        Line2D([], [], color=GREY, ls=":", lw=1.6, label=r"$m_h^{-(2\alpha-1)}$"),
        Line2D([], [], color=INK, ls=(0, (1, 3)), lw=0.8, label="the target's formula in float32"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
