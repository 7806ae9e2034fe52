"""The journey of one sequence through quantiser, contextual mapping and value map, on one sheet.

Four panels, left to right: the tokens in the cells they fall into; the code of each token after every
layer of the contextual mapping; the keys of all tokens in all contexts, with their values; what comes
out, beside the map's own values. A token keeps its colour throughout.

The n keys of a sequence, k̃_j + G·k̃_n, are nearly equal numbers, and those of other sequences far away:
no axis shows both. So the third panel has two: the contexts in the order of k̃_n, and the token's k̃_j.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.words import plural
from exactformer.errors import InputError
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PALE, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.sequences.blueprint import SequenceBlueprint
    from exactformer.sequences.model import SequenceModel

Array = NDArray[np.float64]

COLOURS = (BLUE, ORANGE, GREEN, "#8c4fa3", "#b8860b", "#0e7490", "#be185d", GREY)
MOST_KEYS = 20_000
_MOST_EDGES = 40
_MOST_LABELS = 8


def sequence_journey_figure(
    model: SequenceModel, x: Any, f: Callable[[Array], Any] | None = None, title: str = ""
) -> Figure:
    """Draw what happens to one sequence, (n, d); ``f``, of (n, d) arrays too, is drawn next to it."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    blueprint = model.blueprint
    tokens = np.asarray(x, dtype=np.float64)
    if tokens.shape != (blueprint.tokens, blueprint.dim):
        raise InputError(
            f"a sequence has shape (n, d) = ({blueprint.tokens}, {blueprint.dim}), not {tokens.shape}"
        )
    output = model(tokens).cpu().numpy()
    wanted = None if f is None else np.asarray(f(tokens))
    with exactformer_style():
        below = ConstrainedLayoutEngine(rect=(0, 0, 1, 0.87), wspace=0.05)
        figure = Figure(figsize=(15.5, 5.4), layout=below)
        quantise, shift, keys, values = figure.subplots(
            1, 4, gridspec_kw={"width_ratios": [1.05, 1.75, 1.5, 1.05]}
        )
        _draw_cells(quantise, model, tokens)
        _draw_codes(shift, model, tokens)
        _draw_keys(figure, keys, model, tokens)
        _draw_values(values, blueprint, output, wanted)
        _heading(figure, blueprint, title)
    return figure


def _heading(figure: Figure, blueprint: SequenceBlueprint, title: str) -> None:
    layers = ",  ".join(f"{name} {count:,}" for name, count in blueprint.counts().layers.items())
    low, high = blueprint.support
    words = (
        f"{plural(blueprint.tokens, 'token')} of dimension {blueprint.dim} in [{low}, {high}), "
        f"{blueprint.cells} cells a side; {blueprint.form} form, "
        f"{'with' if blueprint.positional else 'without'} positions; layers:  {layers}"
    )
    figure.text(0.008, 0.955, title, fontsize=13, fontweight="bold", va="center")
    figure.text(0.008, 0.905, words, color=GREY, va="center")


def _colour(token: int) -> str:
    return COLOURS[token % len(COLOURS)]


def _draw_cells(axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw each token in the cell it falls into, and the number that it gets."""
    from matplotlib.patches import Rectangle

    blueprint = model.blueprint
    low, high = (float(end) for end in blueprint.support)
    side = (high - low) / blueprint.cells
    quantised = model.quantise(tokens)
    cells = quantised.cpu().numpy()
    numbers = model.contextual_mapping.ids(quantised).cpu().numpy()
    plane = blueprint.dim > 1
    edges = low + side * np.arange(blueprint.cells + 1)
    if blueprint.cells <= _MOST_EDGES:
        ends = (low, high) if plane else (0.5, len(tokens) + 0.5)
        axes.hlines(edges, *ends, color=PALE, lw=0.7)
        if plane:
            axes.vlines(edges, low, high, color=PALE, lw=0.7)
    for j, (x, cell) in enumerate(zip(tokens, cells, strict=True)):
        at = (x[0], x[1]) if plane else (j + 1, x[0])
        inside = (cell >= 0).all()
        if inside:
            corner = low + side * cell
            place = (corner[0], corner[1]) if plane else (j + 0.6, corner[0])
            size = (side, side) if plane else (0.8, side)
            axes.add_patch(Rectangle(place, *size, color=_colour(j), alpha=0.25, lw=0))
            mark = (corner[0], corner[1]) if plane else (j + 1, corner[0])
            axes.annotate(
                "", mark, at, arrowprops={"arrowstyle": "->", "color": _colour(j), "lw": 1}
            )
        axes.plot(*at, "o", color=_colour(j), markersize=5)
        if len(tokens) <= _MOST_LABELS:
            name = f"{numbers[j]:.0f}" if inside else "outside"
            axes.annotate(
                name, at, (0, 7), textcoords="offset points", ha="center", fontweight="bold",
                color=_colour(j),
            )  # fmt: skip
    axes.grid(False)
    if not plane:
        room = 0.04 * (high - low)
        axes.set_ylim(min(low, tokens.min()) - room, max(high, tokens.max()) + 3 * room)
    _frame(axes, tokens, "token's coordinate")
    axes.set_title("1  Quantise: number the cells")
    if blueprint.positional:
        added = [f"{stride:.0f}" for stride in model.contextual_mapping.strides.tolist()]
        added = added if len(added) < 5 else [*added[:2], "…", added[-1]]
        words = f"positions add {', '.join(added)}"
        axes.text(
            0.5, 0.985, words, transform=axes.transAxes, va="top", ha="center", fontsize=8,
            color=GREY,
        )  # fmt: skip


def _frame(axes: Axes, tokens: Array, name: str) -> None:
    """Label axes on which tokens, or values in their place, are drawn."""
    n, d = tokens.shape
    if d == 1:
        axes.set_xlim(0.5, n + 0.5)
        axes.set_xticks(range(1, n + 1))
        axes.set(xlabel="token", ylabel=name)
        return
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.set(xlabel="first coordinate", ylabel="second coordinate")


def _draw_codes(axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw the code of each token after every layer of the contextual mapping."""
    from matplotlib.ticker import MaxNLocator

    blueprint, trace = model.blueprint, model.trace(tokens, layers=True)
    read = np.zeros(blueprint.width)
    for _, row, weight in blueprint.code:
        read[row] = float(weight)
    count = len(blueprint.stage("contextual mapping"))
    names = ["quantise", *(f"contextual mapping {k}" for k in range(1, count + 1))]
    codes = np.array([trace[name].cpu().numpy() @ read for name in names])
    layers = np.append(np.arange(count + 1), 1.04 * count)
    for j, path in enumerate(codes.T):
        axes.step(layers, np.append(path, path[-1]), where="post", color=_colour(j), lw=1.8)
        moved = 1 + np.flatnonzero(np.diff(path))
        axes.plot(moved, path[moved], "o", color=_colour(j), markersize=4.5)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(min(0.0, codes.min()) - 0.3, max(codes.max(), 1.0) * _headroom(codes))
    axes.set(xlabel="layer of the contextual mapping", ylabel="code, in cells")
    axes.set_title("2  Contextual mapping: codes, layer by layer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if blueprint.form != "four-layer":
        axes.axvline(count, color=GREY, lw=0.8, ls=":")
        axes.annotate(
            "global\nshift", (count, 0), (-4, 6), textcoords="offset points", ha="right",
            fontsize=8, color=GREY,
        )  # fmt: skip
        words = "layer k moves the tokens whose number is k − 1"
    else:
        axes.set_xticks(range(count + 1), ["cell", "its number", "+ sum over tokens"])
        words = "each cell has a number; their sum tells the context"
    axes.text(0.02, 0.985, words, transform=axes.transAxes, va="top", fontsize=8, color=GREY)
    if len(tokens) <= _MOST_LABELS:
        step = _step(model)
        for j, key in enumerate(codes[-1]):
            parts = f"{key % step:,.0f} + {step:,.0f} · {key // step:,.0f}"
            axes.text(
                0.02, 0.925 - 0.055 * j, f"token {j + 1}: {key:,.0f} = {parts}",
                transform=axes.transAxes, va="top", fontsize=8.5, color=_colour(j),
                fontweight="bold",
            )  # fmt: skip


def _step(model: SequenceModel) -> float:
    """Return what one context is from the next: G, or the factor of the four-layer form's sums."""
    mapping = model.contextual_mapping
    return mapping.global_shift or mapping.factor


def _headroom(codes: Array) -> float:
    """Room above the last codes for the list of keys: a fifth of the axis, which is logarithmic."""
    return float(max(codes.max(), 1.0) ** 0.25 * 3)


def _draw_keys(figure: Figure, axes: Axes, model: SequenceModel, tokens: Array) -> None:
    """Draw the keys of all tokens in all contexts: a context is a column, coloured by values."""
    table, step = model.value_map, _step(model)
    keys, values = table.keys[:-1].cpu().numpy(), table.values[:-1, 0].cpu().numpy()
    shown = np.arange(len(keys))
    if len(keys) > MOST_KEYS:
        shown = np.sort(np.random.default_rng(0).choice(len(keys), MOST_KEYS, replace=False))
    contexts, column = np.unique(keys // step, return_inverse=True)
    own = keys % step
    dots = axes.scatter(
        1 + column[shown], own[shown], c=values[shown], cmap="viridis", linewidths=0,
        s=float(np.clip(6_000 / max(1, len(shown)), 2, 22)), rasterized=len(shown) > 2_000,
    )  # fmt: skip
    if own.max(initial=0) > 100:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=own.min() / 2)
    codes = model.codes(tokens).cpu().numpy()
    known = np.isin(codes, keys)
    for j in np.flatnonzero(known):
        place = 1 + int(np.searchsorted(contexts, codes[j] // step))
        axes.axvline(place, color=PALE, lw=3, zorder=0)
        axes.plot(
            place, codes[j] % step, "o", markersize=10, fillstyle="none", markeredgewidth=2,
            color=_colour(int(j)),
        )  # fmt: skip
    if not known.any():
        axes.text(
            0.98, 0.02, "equal cells, or a token outside:\nno key, so the output is 0",
            transform=axes.transAxes, ha="right", color=INK, fontweight="bold",
        )  # fmt: skip
    four = model.blueprint.form == "four-layer"
    axes.set(
        xlabel=f"context, 1 to {len(contexts):,}",
        ylabel="token: the number of its cell"
        if four
        else "token: its code before the global shift",
    )
    axes.set_title(f"3  {len(keys):,} keys: every token in every context")
    which = "" if model.blueprint.dim == 1 else ", first coordinate"
    bar = figure.colorbar(dots, ax=axes, location="bottom", aspect=40, shrink=0.9, pad=0.02)
    bar.set_label(f"value at this key{which}", fontsize=8)
    bar.outline.set_visible(False)


def _draw_values(
    axes: Axes, blueprint: SequenceBlueprint, output: Array, wanted: Array | None
) -> None:
    """Draw what comes out, and what should."""
    plane = blueprint.dim > 1
    for j, y in enumerate(output):
        at = (y[0], y[1]) if plane else (j + 1, y[0])
        axes.plot(*at, "o", color=_colour(j), markersize=6)
        if wanted is not None:
            goal = (wanted[j, 0], wanted[j, 1]) if plane else (j + 1, wanted[j, 0])
            axes.plot(*zip(at, goal, strict=True), color=_colour(j), lw=1)
            axes.plot(*goal, "o", color=_colour(j), markersize=11, fillstyle="none")
    handles = [("o", "full", 6, "the transformer")]
    if wanted is not None:
        handles.append(("o", "none", 11, "the map itself"))
        away = float(np.abs(output - wanted).max())
        axes.text(
            0.5, 0.02, f"largest difference {away:.3g}", transform=axes.transAxes, ha="center",
            fontsize=8, color=GREY,
        )  # fmt: skip
    for marker, fill, size, label in handles:
        axes.plot(
            [], [], marker, color=GREY, fillstyle=fill, markersize=size, label=label
        )  # fmt: skip
    if not plane:
        axes.margins(y=0.25)
    _frame(axes, output, "value")
    axes.legend(loc="upper left", handletextpad=0.3, borderaxespad=0.2)
    axes.set_title("4  Values, read off")
