"""The figure of tables 2 and 3: errors of all models on every version, floors and published values."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import legend, subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.linear import (
    CONSTRUCTED,
    INVARIANT,
    LEARNT,
    PLAIN_RNN,
    RNN,
    TIMED_RNN,
    TRANSFORMER,
    VARYING,
    VERSIONS,
    Published,
    label,
    models_of,
)
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE

_COLOURS = {TRANSFORMER: BLUE, RNN: ORANGE, PLAIN_RNN: "#e8b08f", TIMED_RNN: GREEN}
_FLOORS: dict[str, dict[str, Any]] = {
    VARYING: {"linestyle": "-", "color": INK, "linewidth": 1},
    INVARIANT: {"linestyle": "--", "color": INK, "linewidth": 1},
}
_STAR: dict[str, Any] = {"color": GREY, "markersize": 11}
_STEP = 0.19  # between models of one version


def table_2(summary: Summary) -> Figure:
    """Draw every version's errors, their floors, and the published values."""
    from exactformer.experiments.jiang.table_2 import PUBLISHED

    return linear_figure(summary, VERSIONS["exponential"], PUBLISHED)


def table_3(summary: Summary) -> Figure:
    """Draw both versions' errors, their floors, and the published values."""
    from exactformer.experiments.jiang.table_3 import PUBLISHED

    return linear_figure(summary, VERSIONS["random"], PUBLISHED)


def linear_figure(summary: Summary, versions: Sequence[str], published: Published) -> Figure:
    """Draw a ring for every seed, a star for a published value, lines for floors."""
    figure, axes = subplots(2.6 + 1.5 * len(versions), 4.8)
    for place, version in enumerate(versions):
        _version(axes, summary, place, version, published)
    axes.set_yscale("log")
    axes.set_xticks(range(len(versions)), [v.replace(", ", ",\n") for v in versions])
    axes.set_xlim(-0.5, len(versions) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("mean squared error on fresh sequences")
    _legend(figure)
    return figure


def _version(axes: Axes, summary: Summary, place: int, version: str, published: Published) -> None:
    learnt, known = models_of(version)
    for model in learnt:
        x = place + (LEARNT.index(model) - 1.5) * _STEP
        values = summary.row(label(model, version)).values
        axes.plot([x] * len(values), values, "o", color=_COLOURS[model], fillstyle="none")
        if (model, version) in published:
            axes.plot(x, published[model, version][0], "*", zorder=0, **_STAR)
    for kind in known:
        value = summary[label(kind, version)]
        if kind in _FLOORS:
            axes.plot([place - 0.42, place + 0.42], [value] * 2, **_FLOORS[kind])
        elif kind == CONSTRUCTED:
            axes.plot(place - 1.5 * _STEP, value, "x", color=BLUE)


def _legend(figure: Figure) -> None:
    ring = {"marker": "o", "fillstyle": "none", "linestyle": ""}
    looks = {
        **{model: {"color": colour, **ring} for model, colour in _COLOURS.items()},
        CONSTRUCTED: {"marker": "x", "color": BLUE, "linestyle": ""},
        **_FLOORS,
        "print": {"marker": "*", "linestyle": "", **_STAR},
    }
    legend(figure, looks, ncols=2)
