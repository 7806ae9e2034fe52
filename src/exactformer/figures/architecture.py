"""A whole transformer on one sheet: every matrix, and what one input does in them.

Left the weights, right the numbers they make of x: scores with the selected entries ringed, what was
selected, and the stream. All cells are the same size, so shapes can be compared by eye.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.layers import Rule
from exactformer.core.words import plural
from exactformer.figures.panels import Panel, draw, label_size, pooled
from exactformer.figures.style import GREY, exactformer_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.core.layers import Block
    from exactformer.core.matrix import Matrix
    from exactformer.core.model import Trace
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.polynomials.model import PolynomialModel

MOST_ROWS = 16
MOST_READOUTS = 4
_VISIBLE = 1e-3
_WIDEST = 15.0
_GAP = 0.28
_LEFT, _RIGHT, _TOP, _TITLE = 0.95, 0.3, 1.35, 0.34
_ROW, _BOTTOM = 0.8, 0.2
_TITLE_WIDTH = {1: 1.2, 3: 0.75, 4: 0.6, 5: 0.7, 6: 0.95}

Row = tuple[str, dict[int, Panel]]
"""A label, and panels by column: 0–3 weights, 4 scores, 5 selection, 6 stream."""


def architecture_figure(model: PolynomialModel, point: Sequence[float]) -> Figure:
    """Draw the matrices of ``model`` and the attention of one input."""
    from matplotlib.figure import Figure

    blueprint, trace = model.blueprint, model.trace(list(point))
    rows = _rows(blueprint, trace)
    columns = [max((p[c].matrix.shape[1] for _, p in rows if c in p), default=0) for c in range(7)]
    shown = [c for c in range(7) if columns[c]]
    cell = min(0.4, max(0.12, 2.0 / blueprint.width))
    cell = min(cell, (_WIDEST - _GAP * len(shown)) / sum(columns))
    widths = {c: max(columns[c] * cell, _TITLE_WIDTH.get(c, 0)) for c in shown}
    heights = [
        max(_ROW, max(p.matrix.shape[0] for p in panels.values()) * cell)
        + max(_label_height(panel, cell) for panel in panels.values())
        for _, panels in rows
    ]
    width = max(6.5, _LEFT + sum(widths.values()) + _GAP * (len(shown) - 1) + _RIGHT)
    height = _TOP + sum(heights) + len(rows) * _TITLE + _BOTTOM
    left, x = {}, _LEFT
    for c in shown:
        left[c] = x
        x += widths[c] + _GAP

    with exactformer_style():
        figure = Figure(figsize=(width, height))
        _heading(figure, model, point, trace["output"].tolist(), height)
        _groups(figure, left, widths, height - _TOP)
        y = height - _TOP
        for (name, panels), tall in zip(rows, heights, strict=True):
            y -= _TITLE
            figure.text(
                0.25 / width, (y - _ROW / 2) / height, name, rotation=90, va="center",
                ha="center", fontsize=9, fontweight="bold",
            )  # fmt: skip
            for c, panel in panels.items():
                if not panel.matrix.size:
                    continue
                n, m = (size * cell for size in panel.matrix.shape)
                box = (left[c] / width, (y - n) / height, m / width, n / height)
                draw(figure.add_axes(box), panel, cell)
            y -= tall
    return figure


def _groups(figure: Figure, left: dict[int, float], widths: dict[int, float], y: float) -> None:
    """Rule off what belongs to the model from what belongs to x."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    for name, columns in (("weights, the same for every x", range(4)), ("at this x", range(4, 7))):
        here = [c for c in columns if c in left]
        if not here:
            continue
        ends = left[here[0]], left[here[-1]] + widths[here[-1]]
        figure.add_artist(
            Line2D([e / width for e in ends], [y / height] * 2, color=GREY, linewidth=0.8)
        )
        figure.text(ends[0] / width, (y + 0.05) / height, name, fontsize=8, color=GREY)


def _rows(blueprint: Blueprint, trace: Trace) -> list[Row]:
    dimensions = blueprint.dimensions
    tokens = [f"token {i + 1}" for i in range(blueprint.tokens)]
    embedding = blueprint.embedding
    rows: list[Row] = [
        (
            "embedding",
            {
                0: _panel("$F$", dense(embedding.features), blueprint.variables, tokens),
                1: _panel("positions and ones", dense(embedding.constant)),
                6: _panel("tokens at x", trace["tokens"].numpy()),
            },
        )
    ]
    inner = [row for b, block in enumerate(blueprint.blocks, 1) for row in _block(block, b, trace)]
    if len(inner) > MOST_ROWS:
        name, panels = inner[MOST_ROWS - 1]
        inner[MOST_ROWS - 1] = (f"{name} of {blueprint.depth}", panels)
    rows += inner[:MOST_ROWS]
    last = trace[f"block {blueprint.depth} output" if blueprint.depth else "tokens"].numpy()
    readouts = blueprint.readouts[:MOST_READOUTS]
    for k, readout in enumerate(readouts, start=1):
        beta = dense(readout.beta)
        panels = {
            0: _panel(r"$\beta$", beta, dimensions, tokens),
            6: _panel(r"$\beta\,\circ$ stream", beta * last, dimensions),
        }
        more = k == MOST_READOUTS < len(blueprint.readouts)
        which = f"\n{k}{f' of {len(blueprint.readouts)}' if more else ''}"
        rows.append((f"readout{which if blueprint.vector else ''}", panels))
    return rows


def _block(block: Block, b: int, trace: Trace) -> list[Row]:
    """Return a row for every head; the last one also shows the feed-forward layer and the stream."""
    heads = block.attention.heads
    rows: list[Row] = []
    for h, head in enumerate(heads, start=1):
        name = f"block {b} head {h}" if len(heads) > 1 else f"block {b}"
        selection = trace[f"{name} selection"].numpy()
        chosen = _chosen(selection, block.attention.selection.rule)
        panels = {
            0: _panel("$W_Q$", dense(head.query)),
            1: _panel("$W_K$", dense(head.key)),
            2: _panel("$W_V$", dense(head.value)),
            4: _panel("scores", trace[f"{name} scores"].numpy(), rings=chosen),
            5: _panel("selected", selection),
        }
        rows.append((name.replace(" head", "\nhead"), panels))
    layer = block.feed_forward
    parts = {
        r"$W_1^\top$": dense(layer.w1).T,
        "$W_2$": dense(layer.w2),
        "$b_2$": dense(layer.b2),
    }
    kept = {name: part for name, part in parts.items() if part.size}
    rows[-1][1][3] = _panel(" ".join(kept), np.hstack(list(kept.values())))
    rows[-1][1][6] = _panel("stream after", trace[f"block {b} output"].numpy())
    return rows


def _chosen(selection: NDArray[Any], rule: Rule) -> list[tuple[int, int]]:
    """Return the entries to ring: of softmax all that get a visible share."""
    if rule is Rule.SOFTMAX:
        return [(int(i), int(j)) for i, j in np.argwhere(selection > _VISIBLE)]
    return [(i, int(j)) for i, j in enumerate(np.argmax(selection, axis=1))]


def dense(matrix: Matrix) -> NDArray[Any]:
    """Return a matrix in float64, for looking at."""
    from exactformer.algebra.rational import to_float

    array = np.zeros(matrix.shape)
    for i, j, value in matrix:
        array[i, j] = to_float(value)
    return array


def _panel(
    title: str,
    matrix: NDArray[Any],
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    rings: Sequence[tuple[int, int]] = (),
) -> Panel:
    return Panel(title, pooled(matrix), columns, rows, rings)


def _label_height(panel: Panel, cell: float) -> float:
    if not panel.labelled:
        return 0.0
    # A character is about 0.6 of its size wide, and an inch has 72 points.
    return max(map(len, panel.columns)) * 0.6 * label_size(cell) / 72 + 0.1


def _heading(
    figure: Figure,
    model: PolynomialModel,
    point: Sequence[float],
    output: float | list[float],
    height: float,
) -> None:
    blueprint = model.blueprint
    width = figure.get_size_inches()[0]
    room = int(width * 9)
    target = model.target if len(model.target) <= room else f"{model.target[:room]} …"
    place = ", ".join(f"{value:.3g}" for value in point)
    place = place if len(place) <= room else f"{place[:room]} …"
    values = output if isinstance(output, list) else [output]
    shown = ", ".join(f"{value:.10g}" for value in values[:MOST_READOUTS])
    shown += ", …" if len(values) > MOST_READOUTS else ""
    lines: list[tuple[float, str, dict[str, Any]]] = [
        (0.3, target, {"fontsize": 12, "fontweight": "bold"}),
        (
            0.53,
            f"{blueprint.construction} construction on {blueprint.domain}: "
            f"{plural(blueprint.tokens, 'token')} of {blueprint.width} dimensions, "
            f"{plural(blueprint.depth, 'block')}",
            {},
        ),
        (0.73, f"x = ({place}),  output {shown}", {}),
        (
            0.93,
            "blue is negative, white zero, orange positive; shade is the root of |entry| over the "
            "largest of its panel",
            {"fontsize": 7, "color": GREY},
        ),
    ]
    for down, text, options in lines:
        figure.text(0.25 / width, 1 - down / height, text, **options)
