"""The circuit of a program on one sheet: its heads and ReLUs by layer, and who reads from whom.

Every part is a box with what it computes. From its right side a grey line leads to the layers that read
it, and a coloured one from there into the part: by its query, key or value, or into its ReLUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from exactformer.core.words import plural
from exactformer.errors import SizeError
from exactformer.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    exactformer_style,
    legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.programs.circuit import Circuit, Component
    from exactformer.programs.model import ProgramModel

MOST_PARTS = 80
COLOURS = {"query": BLUE, "key": ORANGE, "value": GREEN, "input": INK, "output": INK}
_PORTS = {"query": 0.26, "key": 0.0, "value": -0.26}
_EDGES = {"head": BLUE, "units": INK, "embedding": GREY, "output": GREY}
_LETTERS, _LINES = 26, 4
_WIDTH, _GAP, _LINE, _MARGIN = 1.85, 0.6, 0.155, 0.2
_LANE, _BETWEEN = 0.1, 0.2
_SWEEPS = 4


@dataclass
class _Item:
    """What takes room in a column: a part, or a line that passes by."""

    name: str
    """Of the part, or of the one that the line comes from."""
    column: int
    lines: tuple[str, ...] = ()
    kind: str = ""
    aside: int = 0
    """How many of the last lines say what a head selects."""
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + _MARGIN if self.lines else _LANE


def circuit_figure(model: ProgramModel) -> Figure:
    """Draw the circuit of a program's model.

    Raises:
        SizeError: if it has too many parts for one sheet.
    """
    from matplotlib.figure import Figure

    circuit = model.circuit()
    if len(circuit.components) > MOST_PARTS:
        raise SizeError(
            f"the circuit has {len(circuit.components)} parts; {MOST_PARTS} fit on a sheet. "
            "model.circuit().to_dict() has them all"
        )
    columns = _columns(circuit)
    width = len(columns) * (_WIDTH + _GAP) - _GAP + 0.4
    tall = max(sum(i.height + _BETWEEN for i in column) for column in columns)
    height = tall + 1.5
    with exactformer_style():
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0.55 / height, 1, tall / height))
        axes.set(xlim=(0, width), ylim=(-tall / 2, tall / 2))
        axes.set_axis_off()
        for column in columns:
            for item in column:
                _draw(axes, item)
        _connect(axes, circuit, columns)
        _heading(figure, model, height)
        used = {e.through for e in circuit.edges}
        shown = {n: {"color": c} for n, c in COLOURS.items() if n in used}
        if "input" in shown:  # of the same colour
            shown.pop("output", None)
        legend(figure, shown)
    return figure


def _columns(circuit: Circuit) -> list[list[_Item]]:
    """Return parts and passing lines by half-layer, from left to right, with their places."""
    stages = [_stage(c) for c in circuit.components]
    used = {stage: at for at, stage in enumerate(sorted(set(stages)))}
    columns: list[list[_Item]] = [[] for _ in range(len(used) + 1)]
    for component, stage in zip(circuit.components, stages, strict=True):
        at = used[stage]
        columns[at].append(_Item(component.name, at, *_text(component)))
    columns[-1].append(_Item("output", len(used), ("output",), "output"))
    place = {item.name: item.column for column in columns for item in column}
    for source in [item for column in columns for item in column]:
        ends = [place[e.target] for e in circuit.edges if e.source == source.name]
        for at in range(source.column + 1, max(ends, default=0)):
            columns[at].append(_Item(source.name, at))
    _arrange(circuit, columns)
    return columns


def _stage(component: Component) -> int:
    if component.layer is None:
        return -1
    return 2 * component.layer + (component.kind == "units")


def _text(component: Component) -> tuple[tuple[str, ...], str, int]:
    """Return the lines of a part, its kind, and how many lines are about its selector."""
    head = component.name.partition(": ")[0]
    if component.kind == "units":
        head = f"layer {component.layer}, {plural(len(component.units), 'ReLU')}"
    selects = _short(f"selects {component.selector}") if component.selector else []
    computes = _short(", ".join(component.computes))
    return (head, *computes, *selects), component.kind, len(selects)


def _short(text: str) -> list[str]:
    lines = wrap(text, _LETTERS) or ["constants"]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1][:-1]}…"]


def _arrange(circuit: Circuit, columns: list[list[_Item]]) -> None:
    """Order every column by what it is connected with, and place its items."""

    def before(item: _Item, near: list[_Item]) -> list[float]:
        sources = {e.source for e in circuit.edges if e.target == item.name} | {item.name}
        return [other.y for other in near if other.name in sources]

    def after(item: _Item, near: list[_Item]) -> list[float]:
        targets = {e.target for e in circuit.edges if e.source == item.name} | {item.name}
        return [other.y for other in near if other.name in targets]

    for column in columns:
        _stack(column)
    for _ in range(_SWEEPS):
        for at in range(1, len(columns)):
            _sort(columns[at], columns[at - 1], before)
        for at in range(len(columns) - 2, -1, -1):
            _sort(columns[at], columns[at + 1], after)


def _sort(column: list[_Item], near: list[_Item], linked: Any) -> None:
    means = {}
    for item in column:
        heights = linked(item, near)
        means[id(item)] = sum(heights) / len(heights) if heights else item.y
    column.sort(key=lambda item: -means[id(item)])
    _stack(column)


def _stack(column: list[_Item]) -> None:
    y = sum(item.height + _BETWEEN for item in column) / 2
    for item in column:
        y -= (item.height + _BETWEEN) / 2
        item.x, item.y = 0.2 + item.column * (_WIDTH + _GAP), y
        y -= (item.height + _BETWEEN) / 2


def _draw(axes: Axes, item: _Item) -> None:
    from matplotlib.patches import FancyBboxPatch

    if not item.lines:
        axes.plot([item.x, item.x + _WIDTH], [item.y] * 2, color=GREY, linewidth=0.9, zorder=1)
        return
    low = item.y - item.height / 2
    axes.add_patch(
        FancyBboxPatch(
            (item.x, low), _WIDTH, item.height, boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=PALE if item.kind in ("embedding", "output") else "white",
            edgecolor=_EDGES[item.kind], linewidth=1.1, zorder=2,
        )
    )  # fmt: skip
    for k, line in enumerate(item.lines):
        y = item.y + item.height / 2 - _MARGIN / 2 - (k + 0.5) * _LINE
        aside = k >= len(item.lines) - item.aside
        axes.text(
            item.x + 0.1, y, line, fontsize=7.5, va="center", zorder=3,
            fontweight="bold" if k == 0 else "normal", color=GREY if aside else INK,
        )  # fmt: skip


def _connect(axes: Axes, circuit: Circuit, columns: list[list[_Item]]) -> None:
    places = {(item.name, item.column): item for column in columns for item in column}
    parts = {item.name: item for column in columns for item in column if item.lines}
    passing = [item for column in columns for item in column if not item.lines]
    for item in passing:  # from the part, or the line, one column to the left
        _curve(axes, places[item.name, item.column - 1], item, item.y, GREY)
    for edge in circuit.edges:
        target = parts[edge.target]
        y = target.y + _PORTS.get(edge.through, 0.0) * target.height
        _curve(axes, places[edge.source, target.column - 1], target, y, COLOURS[edge.through])


def _curve(axes: Axes, source: _Item, target: _Item, y: float, colour: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    start, end = source.x + _WIDTH, target.x
    middle = (start + end) / 2
    points = [(start, source.y), (middle, source.y), (middle, y), (end, y)]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    axes.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, linewidth=1.1, zorder=1))


def _heading(figure: Figure, model: ProgramModel, height: float) -> None:
    program, sizes = model.program, model.blueprint.sizes
    width = figure.get_size_inches()[0]
    name = program.names[program.output]
    figure.text(0.2 / width, 1 - 0.28 / height, name, fontsize=12, fontweight="bold")
    order = "causal" if program.causal else "every position sees all"
    text = (
        f"1 to {plural(program.max_length, 'token')} of {len(program.tokens)}, {order}; "
        f"{plural(sizes['layers'], 'layer')} of width {sizes['width']}; "
        f"{model.blueprint.selection.rule}"
    )
    figure.text(0.2 / width, 1 - 0.5 / height, text, fontsize=8, color=GREY)
