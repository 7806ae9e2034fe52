"""The journey of one sequence through quantiser, contextual mapping and value map, in four panels.

The tokens in the cells they fall into; the code of each token after every layer of the contextual
mapping; the keys k̃_j + G·k̃_n of all tokens in all contexts, by context k̃_n and token k̃_j, with their
values; what comes out, next to the map's own values. A token keeps its colour throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.core.arrays import Array
from exactformer.core.words import plural
from exactformer.errors import InputError
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PALE, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.sequences.model import SequenceModel

COLOURS = (BLUE, ORANGE, GREEN, "#8c4fa3", "#b8860b", GREY)
MOST_KEYS = 20_000
_MOST_LABELS = 8


def sequence_journey_figure(
    model: SequenceModel, x: Any, f: Callable[[Array], Any] | None = None, title: str = ""
) -> Figure:
    """Draw what happens to one sequence, (n, d); ``f``, of (n, d) arrays too, is drawn next to it."""
    from matplotlib.figure import Figure

    blueprint = model.blueprint
    tokens = np.asarray(x, dtype=np.float64)
    if tokens.shape != (blueprint.tokens, blueprint.dim):
        raise InputError(
            f"a sequence has shape (n, d) = ({blueprint.tokens}, {blueprint.dim}), not {tokens.shape}"
        )
    words = (
        f"{blueprint.form} form, {plural(blueprint.tokens, 'token')} of dimension {blueprint.dim}"
    )
    with exactformer_style():
        figure = Figure(figsize=(15.5, 5), layout="constrained")
        cells, codes, keys, values = figure.subplots(1, 4, width_ratios=[1, 1.7, 1.5, 1])
        figure.suptitle(f"{title}\n{words}".strip(), x=0.01, ha="left", fontweight="bold")
        _draw_cells(cells, model, tokens)
        _draw_codes(codes, model, tokens)
        _draw_keys(figure, keys, model, tokens)
        wanted = None if f is None else np.asarray(f(tokens))
        _draw_values(values, model(tokens).cpu().numpy(), wanted)
    return figure


def _place(j: int, x: Array) -> tuple[float, float]:
    """Return where token ``j`` is drawn: at its first two coordinates, or above its number."""
    return (x[0], x[1]) if len(x) > 1 else (j + 1, x[0])


def _frame(axes: Axes, title: str, shape: tuple[int, ...], name: str) -> None:
    axes.set_title(title)
    axes.margins(0.15)
    if shape[1] > 1:
        axes.set(xlabel="first coordinate", ylabel="second coordinate")
    else:
        axes.set(xlabel="token", ylabel=name, xticks=range(1, shape[0] + 1))


def _draw_cells(axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw each token in the cell it falls into, and the number that it gets."""
    from matplotlib.patches import Rectangle

    low, high = (float(end) for end in model.blueprint.support)
    side = (high - low) / model.blueprint.cells
    quantised = model.quantise(tokens)
    numbers = model.contextual_mapping.ids(quantised).cpu().numpy()
    for j, (x, cell) in enumerate(zip(tokens, quantised.cpu().numpy(), strict=True)):
        colour, inside = COLOURS[j % len(COLOURS)], bool((cell >= 0).all())
        if inside:
            left, bottom = _place(j, low + side * cell)
            left, wide = (left, side) if len(x) > 1 else (left - 0.4, 0.8)
            axes.add_patch(Rectangle((left, bottom), wide, side, color=colour, alpha=0.25, lw=0))
        axes.plot(*_place(j, x), "o", color=colour)
        if len(tokens) <= _MOST_LABELS:
            name = f"{numbers[j]:.0f}" if inside else "outside"
            axes.annotate(name, _place(j, x), (0, 7), textcoords="offset points", color=colour)
    _frame(axes, "1  Quantise: number the cells", tokens.shape, "token's coordinate")


def _draw_codes(axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw the code of each token after every layer of the contextual mapping, and its key."""
    blueprint, trace, step = model.blueprint, model.trace(tokens, layers=True), _step(model)
    read = np.zeros(blueprint.width)
    for _, row, weight in blueprint.code:
        read[row] = float(weight)
    layers = range(1, len(blueprint.stage("contextual mapping")) + 1)
    names = ["quantise", *(f"contextual mapping {k}" for k in layers)]
    codes = np.array([trace[name].cpu().numpy() @ read for name in names])
    for j, path in enumerate(codes.T):
        colour = COLOURS[j % len(COLOURS)]
        axes.step(range(len(path)), path, where="post", color=colour, marker=".")
        if len(tokens) <= _MOST_LABELS:
            parts = f"{path[-1] % step:,.0f} + {step:,.0f} · {path[-1] // step:,.0f}"
            words, height = f"token {j + 1}: {path[-1]:,.0f} = {parts}", 0.96 - 0.055 * j
            axes.text(0.02, height, words, transform=axes.transAxes, va="top", color=colour)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(top=3 * max(codes.max(), 1.0) ** 1.25)
    axes.set(xlabel="layer of the contextual mapping", ylabel="code, in cells")
    axes.set_title("2  Contextual mapping: codes, layer by layer")


def _step(model: SequenceModel) -> float:
    """Return the distance between contexts: G, or the factor of the four-layer form's sums."""
    mapping = model.contextual_mapping
    return mapping.global_shift or mapping.factor


def _draw_keys(figure: Figure, axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw the keys of all tokens in all contexts: a context is a column, coloured by values."""
    table, step = model.value_map, _step(model)
    keys, values = table.keys[:-1].cpu().numpy(), table.values[:-1, 0].cpu().numpy()
    shown = np.random.default_rng(0).permutation(len(keys))[:MOST_KEYS]
    contexts, column = np.unique(keys // step, return_inverse=True)
    places = 1 + column[shown], (keys % step)[shown]
    dots = axes.scatter(*places, c=values[shown], s=12, rasterized=True)
    codes = model.codes(tokens).cpu().numpy()
    known = np.flatnonzero(np.isin(codes, keys))
    for j in known:
        place = 1 + int(np.searchsorted(contexts, codes[j] // step)), codes[j] % step
        axes.axvline(place[0], color=PALE, lw=3, zorder=0)
        axes.plot(*place, "o", ms=10, fillstyle="none", mew=2, color=COLOURS[j % len(COLOURS)])
    if not len(known):
        words = "equal cells, or a token outside:\nno key, so the output is 0"
        axes.text(0.98, 0.02, words, transform=axes.transAxes, ha="right", color=INK)
    axes.set(xlabel=f"context, 1 to {len(contexts):,}", ylabel="token: its code in the context")
    axes.set_title(f"3  {len(keys):,} keys: every token in every context")
    figure.colorbar(dots, ax=axes, location="bottom", label="value at this key, first coordinate")


def _draw_values(axes: Axes, output: Array, wanted: Array | None) -> None:
    for j, y in enumerate(output):
        axes.plot(*_place(j, y), "o", color=COLOURS[j % len(COLOURS)])
        if wanted is not None:
            goal = _place(j, wanted[j])
            axes.plot(*goal, "o", ms=11, fillstyle="none", color=COLOURS[j % len(COLOURS)])
    rings = "" if wanted is None else "\nrings: the map itself"
    _frame(axes, f"4  Values, read off{rings}", output.shape, "value")
