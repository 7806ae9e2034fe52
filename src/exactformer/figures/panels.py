"""One matrix, drawn cell by cell at a fixed size: the element of the architecture figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.figures.style import GREY, INK, PALE, diverging

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELLED = 40
_ANNOTATED = 0.25
_VECTOR = 600


@dataclass(frozen=True)
class Panel:
    """A matrix with a title, the names of its columns, and the cells to ring."""

    title: str
    matrix: NDArray[Any]
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()
    rings: Sequence[tuple[int, int]] = ()

    @property
    def labelled(self) -> bool:
        """Whether the columns' names are drawn."""
        return 0 < len(self.columns) <= _LABELLED


def draw(axes: Axes, panel: Panel, cell: float) -> None:
    """Draw into axes whose size fits the matrix; ``cell`` is the edge of a cell in inches."""
    matrix = np.asarray(panel.matrix, dtype=float)
    rows, columns = matrix.shape
    largest = float(np.abs(matrix).max(initial=0.0))
    shade = signed_root(matrix)
    options: dict[str, Any] = {"cmap": diverging(), "vmin": -1, "vmax": 1}
    axes.grid(False)
    if matrix.size <= _VECTOR:
        axes.pcolormesh(shade, edgecolors=PALE, linewidth=min(0.5, 4 * cell), **options)
    else:
        axes.imshow(shade, extent=(0, columns, rows, 0), interpolation="none", **options)
    axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    axes.set_title(panel.title, fontsize=8.5, pad=4)
    if columns * cell > 0.1 * len(panel.title) + 0.4:
        axes.text(
            1, 1.02, f"max {largest:.3g}", transform=axes.transAxes, ha="right", va="bottom",
            fontsize=5.5, color=GREY,
        )  # fmt: skip
    if cell >= _ANNOTATED:
        _annotate(axes, matrix, shade, cell)
    if panel.labelled:
        axes.set_xticks(
            np.arange(columns) + 0.5, panel.columns, rotation=90, fontsize=label_size(cell)
        )
        axes.tick_params(axis="x", length=0, pad=2)
    if 0 < len(panel.rows) <= _LABELLED:
        axes.set_yticks(np.arange(rows) + 0.5, panel.rows, fontsize=label_size(cell))
        axes.tick_params(axis="y", length=0, pad=2)
    if panel.rings and rows <= _LABELLED:
        places = np.array(panel.rings) + 0.5
        axes.plot(
            places[:, 1], places[:, 0], "o", fillstyle="none", color=INK,
            markersize=min(18, 50 * cell), markeredgewidth=0.8,
        )  # fmt: skip


def pooled(matrix: NDArray[Any], most: int = 400) -> NDArray[Any]:
    """Return a matrix of at most ``most`` rows and columns: of each block its largest |entry|."""
    for axis in (0, 1):
        size = matrix.shape[axis]
        if size > most:
            starts = np.linspace(0, size, most, endpoint=False).astype(int)
            high = np.maximum.reduceat(matrix, starts, axis=axis)
            low = np.minimum.reduceat(matrix, starts, axis=axis)
            matrix = np.where(high >= -low, high, low)
    return matrix


def label_size(cell: float) -> float:
    """Return the size of names beside cells of this size, in points."""
    return min(7.5, 55 * cell)


def signed_root(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return ±√(|entry| / largest): between −1 and 1, with small entries still to be seen."""
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    return np.asarray(np.sign(matrix) * np.sqrt(np.abs(matrix) / largest))


def _annotate(axes: Axes, matrix: NDArray[Any], shade: NDArray[Any], cell: float) -> None:
    for (i, j), value in np.ndenumerate(matrix):
        text = f"{value:.2g}"
        size = min(8.0, 72 * cell / (0.65 * len(text)))  # as large as fits the cell
        if value and size >= 4:
            axes.text(
                j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=size,
                color="white" if abs(shade[i, j]) > 0.6 else INK,
            )  # fmt: skip
