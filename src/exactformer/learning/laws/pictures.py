"""Pictures of a law: how it depends on each variable, and what it leaves unexplained.

Residuals are also drawn as a small histogram for the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from exactformer.figures.style import BLUE, GREY, ORANGE, subplots
from exactformer.learning.laws.dictionary.columns import Array

_PANELS = 3
_AVERAGED = 500
_SHOWN = 3000
_GRID = 60
_SINGLE = 25
_BINS = 20
_BARS, _LONGEST_BAR = 13, 40


def dependence(
    predict: Callable[[Array], Array], X: Array, variables: Sequence[tuple[int, str]], target: str
) -> Any:
    """Draw partial dependence: the mean of a law over the rows, one variable set to each value.

    ``predict`` takes rows (n, d); ``variables`` are the columns to draw, with their names. Pale curves
    are single rows: where they are not parallel, the effect depends on other variables. Marks below
    are rows of the data.
    """
    rows = X[_evenly(len(X), _AVERAGED)]
    figure, places = _panels(len(variables))
    for axes, (column, name) in zip(places, variables, strict=False):
        low, high = X[:, column].min(), X[:, column].max()
        grid = np.linspace(low, high, _GRID)
        table = np.repeat(rows[None], _GRID, axis=0)
        table[:, :, column] = grid[:, None]
        values = predict(table.reshape(-1, X.shape[1])).reshape(_GRID, len(rows))
        single = values[:, _evenly(len(rows), _SINGLE)]
        axes.plot(grid, single, color=GREY, linewidth=0.6, alpha=0.35)
        axes.plot(grid, values.mean(axis=1), color=BLUE, linewidth=2)
        marks = rows[:, column]
        axes.plot(marks, np.zeros_like(marks), "|", color=GREY, transform=_at_the_foot(axes))
        axes.set_xlabel(name)
    _label_rows(places, f"mean of {target}")
    return figure


def residuals(
    residual: Array, fitted: Array, X: Array, variables: Sequence[tuple[int, str]], target: str
) -> Any:
    """Draw residuals against the fitted values and each variable, with means of equally many rows.

    Neighbouring means that leave zero are structure that the law has not caught.
    """
    figure, places = _panels(len(variables) + 1)
    shown = _evenly(len(X), _SHOWN)
    against = [(fitted, f"fitted {target}"), *((X[:, j], name) for j, name in variables)]
    for axes, (values, name) in zip(places, against, strict=False):
        axes.plot(values[shown], residual[shown], ".", markersize=2, alpha=0.35, color=BLUE)
        axes.lines[-1].set_rasterized(True)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.plot(*_means(values, residual), color=ORANGE, marker="o", markersize=3)
        axes.set_xlabel(name)
    _label_rows(places, f"residual of {target}")
    return figure


def overview(fitted: Array, residual: Array, targets: Sequence[str]) -> Any:
    """Draw residuals (N, outputs) against fitted values and their distribution, a row per target."""
    count = len(targets)
    figure, places = subplots(
        9, 3.5 * count, count, 2, width_ratios=(2, 1), sharey="row", squeeze=False
    )
    shown = _evenly(len(fitted), 5000)
    for (left, right), y, r, target in zip(places, fitted.T, residual.T, targets, strict=True):
        left.plot(y[shown], r[shown], ".", markersize=2, alpha=0.5)
        left.axhline(0, color="black", linewidth=0.8)
        left.set(xlabel=f"fitted {target}", ylabel=f"residual of {target}")
        right.hist(r, bins=61, orientation="horizontal")
        right.set_xlabel("rows")
    return figure


def histogram(residual: Array) -> str:
    """Return a histogram from −3 to 3 standard deviations, tails gathered into the last bars."""
    spread = float(np.sqrt(np.mean(residual**2)))
    if spread == 0:
        return "every residual is zero"
    edges = np.linspace(-3.25, 3.25, _BARS + 1)
    counts, _ = np.histogram(np.clip(residual / spread, edges[0], edges[-1]), edges)
    longest = max(int(counts.max()), 1)
    lines = []
    for count, left in zip(counts.tolist(), edges[:-1], strict=True):
        bar = "█" * round(_LONGEST_BAR * count / longest) or ("▏" if count else "")
        lines.append(f"{(left + 0.25) * spread:>11.3g}  {bar} {count}")
    return "\n".join(lines)


def _means(values: Array, residual: Array) -> tuple[Array, Array]:
    order = np.argsort(values, kind="stable")
    parts = np.array_split(order, min(_BINS, max(1, len(values) // 10)))
    centres = np.array([values[part].mean() for part in parts])
    return centres, np.array([residual[part].mean() for part in parts])


def _panels(count: int) -> tuple[Any, list[Any]]:
    rows = -(-count // _PANELS)
    columns = min(count, _PANELS)
    figure, axes = subplots(
        3.2 * columns + 0.6, 2.6 * rows, rows, columns, squeeze=False, sharey=True
    )
    places = list(axes.ravel())
    for place in places[:count]:
        place.locator_params(axis="x", nbins=5)
    for spare in places[count:]:
        spare.set_visible(False)
    return figure, places[:count]


def _label_rows(places: list[Any], text: str) -> None:
    for axes in places[::_PANELS]:
        axes.set_ylabel(text)


def _at_the_foot(axes: Any) -> Any:
    from matplotlib.transforms import blended_transform_factory

    return blended_transform_factory(axes.transData, axes.transAxes)


def _evenly(count: int, most: int) -> Any:
    return np.linspace(0, count - 1, min(count, most)).astype(int)
