"""Figures of experiments: our values against published ones, and equal bytes when saved."""

import io
import math
from typing import TYPE_CHECKING

from exactformer.experiments.engine.store import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary


def ours_against_published(summary: "Summary") -> "Figure":
    """Draw every row as a dot with its spread, and the published value as a ring."""
    from exactformer.figures.style import list_down, subplots

    rows = summary.rows
    finite = {row.label for row in rows if math.isfinite(row.mean)}
    figure, axes = subplots(7, 1.2 + 0.35 * len(rows))
    for place, row in enumerate(rows):
        if row.label in finite:
            axes.errorbar(row.mean, place, xerr=row.spread or 0, fmt="o", color="C0", capsize=3)
        if row.reference is not None:
            axes.plot(row.reference, place, "o", color="C1", fillstyle="none", markersize=10)
    axes.plot([], [], "o", color="C0", label="ours, with spread over seeds")
    axes.plot(
        [], [], "o", color="C1", fillstyle="none", markersize=10, label="published or expected"
    )
    labels = [row.label if row.label in finite else f"{row.label}: diverged" for row in rows]
    list_down(axes, labels)
    drawn = [row.mean for row in rows if row.label in finite]
    drawn += [row.reference for row in rows if row.reference is not None]
    if drawn and min(drawn) > 0 and max(drawn) > 20 * min(drawn):
        axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("value")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return figure


def save_figure(figure: "Figure", stem: "Path") -> None:
    """Write ``stem``.png and ``stem``.svg."""
    import matplotlib

    # Without these, the SVG holds the date and random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": "exactformer"}):
        for kind, metadata in [("svg", {"Date": None}), ("png", {"Software": None})]:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            write_atomically(stem.with_name(f"{stem.name}.{kind}"), buffer.getvalue())
