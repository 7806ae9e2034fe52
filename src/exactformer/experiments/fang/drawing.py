"""What several figures of Fang's experiments draw alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.fang.names import COLOURS, LABELS
from exactformer.experiments.fang.networks import NETWORKS
from exactformer.figures.style import GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from exactformer.experiments.engine.summary import Summary


def clipping_panel(
    axes: Axes, summary: Summary, used: float, printed: Mapping[str, float | None]
) -> None:
    """Draw the clean test error of the first seed against the threshold; crosses diverged."""
    networks = [cell for cell in summary.cells if cell.parameters["model"] in NETWORKS]
    clips = sorted(
        {cell.parameters["clip"] for cell in networks},
        key=lambda clip: math.inf if clip is None else clip,
    )
    found: dict[str, list[float]] = {}
    for model in NETWORKS:
        cells = {c.parameters["clip"]: c for c in summary.select(model=model, seed=0)}
        found[model] = [float(cells[clip].metrics["test"]) for clip in clips]
    finite = [v for values in found.values() for v in values if math.isfinite(v)]
    top = 10 ** math.ceil(math.log10(max(finite)) + 1)
    for shift, (model, values) in enumerate(found.items()):
        colour, lost = COLOURS[model], [not math.isfinite(v) for v in values]
        axes.plot(np.where(lost, np.nan, values), "o-", color=colour, label=LABELS[model])
        for place in np.flatnonzero(lost):
            axes.plot(place + 0.12 * (shift - 1), top, "x", color=colour, clip_on=False)
        value = printed.get(model)
        if value is not None:
            axes.axhline(value, color=colour, linestyle=":", linewidth=1)
    axes.axvline(clips.index(used), color=GREY, linewidth=6, alpha=0.15, zorder=0)
    axes.set(
        yscale="log",
        ylim=(min(finite) / 3, top),
        xlim=(-0.3, len(clips) - 0.7),
        xlabel="largest norm of the gradient (shaded: used)",
        ylabel="test MSE, clean target",
        title="Threshold of clipping, one seed",
    )
    axes.set_xticks(range(len(clips)), ["none" if c is None else f"{c:g}" for c in clips])
    handles = axes.get_legend_handles_labels()[0]
    if any(value is not None for value in printed.values()):
        handles.append(axes.plot([], [], ":", color=GREY, label="paper")[0])
    handles.append(axes.plot([], [], "x", color=GREY, label="diverged")[0])
    axes.legend(
        handles=handles, ncols=2, fontsize=7, frameon=True, framealpha=0.8, edgecolor="none"
    )


def band(axes: Axes, x: Sequence[float], values: Any, colour: str, label: str, **line: Any) -> None:
    """Draw the mean over seeds, ``values`` (seeds, points), within its smallest and largest."""
    values = np.asarray(values, dtype=float)
    axes.plot(x, values.mean(axis=0), color=colour, label=label, **line)
    if len(values) > 1:
        axes.fill_between(
            x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )


def printed_ring(axes: Axes, x: float, y: float, **marker: Any) -> None:
    """Mark a printed value."""
    options: dict[str, Any] = {
        "marker": "o",
        "markersize": 10,
        "fillstyle": "none",
        "color": ORANGE,
    } | marker
    axes.plot([x], [y], linestyle="none", zorder=5, **options)
