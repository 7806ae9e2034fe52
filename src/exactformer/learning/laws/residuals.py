"""Residuals to look at: a small histogram for the terminal, a figure for a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from exactformer.figures.style import subplots
from exactformer.learning.laws.dictionary.columns import Array

_BINS = 13
_WIDTH = 40


def histogram(residual: Array) -> str:
    """Return a histogram from −3 to 3 standard deviations, tails gathered into the last bars."""
    spread = float(np.sqrt(np.mean(residual**2)))
    if spread == 0:
        return "every residual is zero"
    edges = np.linspace(-3.25, 3.25, _BINS + 1)
    counts, _ = np.histogram(np.clip(residual / spread, edges[0], edges[-1]), edges)
    longest = max(int(counts.max()), 1)
    lines = []
    for count, left in zip(counts.tolist(), edges[:-1], strict=True):
        bar = "█" * round(_WIDTH * count / longest) or ("▏" if count else "")
        lines.append(f"{(left + 0.25) * spread:>11.3g}  {bar} {count}")
    return "\n".join(lines)


def figure(fitted: Array, residuals: Array, targets: Sequence[str]) -> Any:
    """Return residuals (N, outputs) against fitted values and their distribution, a row per target."""
    count = len(targets)
    drawing, places = subplots(
        9, 3.5 * count, count, 2, width_ratios=(2, 1), sharey="row", squeeze=False
    )
    shown = np.linspace(0, len(fitted) - 1, min(len(fitted), 5000)).astype(int)
    for (left, right), y, residual, target in zip(
        places, fitted.T, residuals.T, targets, strict=True
    ):
        left.plot(y[shown], residual[shown], ".", markersize=2, alpha=0.5)
        left.axhline(0, color="black", linewidth=0.8)
        left.set_xlabel(f"fitted {target}")
        left.set_ylabel(f"residual of {target}")
        right.hist(residual, bins=61, orientation="horizontal")
        right.set_xlabel("rows")
    return drawing
