"""The look: colours, figures and their legends, a context; and saving to the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.core.whole_files import write_bytes
from exactformer.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("exactformer.mplstyle")

BLUE, ORANGE, GREEN, INK, GREY, PALE = (
    "#1d5fa8",
    "#d9622b",
    "#2a8c6a",
    "#1f2937",
    "#6b7280",
    "#e5e7eb",
)

Looks = Mapping[Any, Mapping[str, Any]]
"""How the curve of every series is drawn, in the words of matplotlib's ``plot``."""

# What would make two equal figures differ: dates and program versions.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextmanager
def exactformer_style() -> Iterator[None]:
    """Draw and save inside this; the user's own settings are as before afterwards."""
    import matplotlib.style

    with matplotlib.style.context(["default", STYLE]):
        yield


def subplots(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure whose parts keep clear of each other, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def list_down(axes: Axes, names: Sequence[str]) -> None:
    """Write names down the vertical axis, the first on top, at the heights 0, 1, 2, …"""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def legend(figure: Figure, looks: Looks, **options: Any) -> None:
    """Explain looks below the figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **{"label": name, **look}) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", **{"ncols": len(handles), **options})


def diverging() -> Colormap:
    """Return the colours of signed entries: blue below zero, white at it, orange above."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "exactformer", ["#0f3a6b", BLUE, "#a9c8e8", "#ffffff", "#f6c3a5", ORANGE, "#8a3410"]
    )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, by the name's ending; equal figures to equal bytes."""
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise InputError(f"{target}: figures are written as .png, .svg or .pdf")
    write_bytes(figure_bytes(figure, kind), target)


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the content of a file: ``"png"``, ``"svg"`` or ``"pdf"``."""
    buffer = io.BytesIO()
    with exactformer_style():
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    return buffer.getvalue()


def page_style() -> str:
    """Return the style sheet of HTML pages that need nothing else."""
    return Path(__file__).with_name("page.css").read_text("utf-8")
