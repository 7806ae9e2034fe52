"""Margins of a verdict's inputs against what rounding can move them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exactformer.figures.style import exactformer_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.verification.verdict import Verdict


def margins_figure(verdict: Verdict) -> Figure:
    """Draw a point per input: to the right of both lines is decided, between them is not."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(5.6, 4.0), layout="constrained")
        axes = figure.subplots()
        points = verdict.points
        margins, bounds = [m for m, _ in points], [max(b, 1e-300) for _, b in points]
        axes.scatter(margins, bounds, s=8)
        if points:
            low, high = min(bounds), max(bounds)
            for sign in (-1, 1):
                axes.plot([sign * low, sign * high], [low, high], color="black", linewidth=0.8)
        axes.set_yscale("log")
        axes.set_xlabel("margin of the right answer (logits)")
        axes.set_ylabel("bound of its rounding (logits)")
        axes.set_title(f"{verdict.arithmetic}: {len(points):,} of {verdict.total:,} inputs")
        return figure
