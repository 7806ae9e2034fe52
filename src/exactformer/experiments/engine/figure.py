"""Figures of experiments: what many of them draw alike, without pyplot, and equal bytes when saved."""

import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.store import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from exactformer.experiments.engine.summary import Summary

Looks = Mapping[Any, Mapping[str, Any]]
"""How the curve of every series is drawn, in the words of matplotlib's ``plot``."""


def subplots(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> "tuple[Figure, Any]":
    """Return a figure whose parts keep clear of each other, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def curves(
    axes: "Axes",
    frame: "DataFrame",
    x: str,
    y: str,
    series: str,
    looks: Looks,
    *,
    line: str = "",
    dotted: str = "",
) -> None:
    """Draw column ``y`` against ``x`` for every series; ``line`` and ``dotted`` where complete."""
    for name, look in looks.items():
        mine = frame[frame[series] == name].sort_values(x)
        axes.plot(mine[x], mine[y], **look)
        for column, style in ((line, {"lw": 1.0}), (dotted, {"lw": 1.2, "ls": ":"})):
            if column and column in mine and mine[column].notna().all():
                axes.plot(mine[x], mine[column], color=look["color"], **style)


def legend(figure: "Figure", looks: Looks, **options: Any) -> None:
    """Explain looks below the figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **{"label": name, **look}) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", **{"ncols": len(handles), **options})


def ours_against_published(summary: "Summary") -> "Figure":
    """Draw every row as a dot with its spread, and the published value as a ring."""
    from matplotlib.figure import Figure

    rows = summary.rows
    finite = {row.label for row in rows if math.isfinite(row.mean)}
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        if row.label in finite:
            axes.errorbar(row.mean, place, xerr=row.spread or 0, fmt="o", color="C0", capsize=3)
        if row.published is not None:
            axes.plot(row.published, place, "o", color="C1", fillstyle="none", markersize=10)
    axes.plot([], [], "o", color="C0", label="ours, with spread over seeds")
    axes.plot([], [], "o", color="C1", fillstyle="none", markersize=10, label="paper")
    labels = [row.label if row.label in finite else f"{row.label}: diverged" for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    drawn = [row.mean for row in rows if row.label in finite]
    drawn += [row.published for row in rows if row.published is not None]
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
