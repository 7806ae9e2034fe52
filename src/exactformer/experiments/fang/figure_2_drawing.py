"""The figure of figure 2: what each model has learnt of a paraboloid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.fang.drawing import clipping_panel
from exactformer.experiments.fang.figure_2 import CLIP, PRINTED
from exactformer.experiments.fang.learning import SURFACE
from exactformer.experiments.fang.names import LABELS, MODELS, TEST
from exactformer.figures.style import exactformer_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

_HIGHEST = 2 * float(SURFACE[-1]) ** 2


def figure_2(summary: Summary) -> Figure:
    """Draw five surfaces, errors in their titles, and a panel on clipping."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(10.5, 6.8))
        for place, model in enumerate(MODELS):
            row, column = divmod(place, 3)
            box = (0.01 + 0.33 * column, 0.52 - 0.5 * row, 0.29, 0.4)
            _surface(figure.add_axes(box, projection="3d"), summary, model)
        clipping_panel(figure.add_axes((0.745, 0.09, 0.24, 0.34)), summary, CLIP, PRINTED)
    return figure


def _surface(axes: Any, summary: Summary, model: str) -> None:
    cells = summary.select(model=model, seed=0)
    cell = next(cell for cell in cells if cell.parameters.get("clip", CLIP) == CLIP)
    x, y = np.meshgrid(SURFACE, SURFACE)
    axes.plot_surface(
        x, y, np.array(cell.metrics["surface"]), cmap="viridis", vmin=0, vmax=_HIGHEST,
        linewidth=0, rstride=1, cstride=1,
    )  # fmt: skip
    row = summary.row(f"{LABELS[model]}, {TEST}")
    printed = "" if row.printed is None else f"  (paper {_shown(row.printed)})"
    axes.set_title(f"{LABELS[model]}\nMSE {_shown(row.mean)}{printed}", loc="center")
    axes.set(xlabel="x₁", ylabel="x₂", zlabel="learnt f₁*", zlim=(0, _HIGHEST))
    axes.tick_params(labelsize=6, pad=0)


def _shown(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"
