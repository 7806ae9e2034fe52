"""Matrices of a blueprint on the terminal, entry by entry, exactly; tensors of a trace by name."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from exactformer.cli.support.output import empty_table
from exactformer.polynomials.blueprint import labels, title

if TYPE_CHECKING:
    from torch import Tensor

    from exactformer.core.matrix import Matrix
    from exactformer.core.model import Trace
    from exactformer.polynomials.blueprint import Blueprint

MOST_ENTRIES = 40
_DENSE = 1000
_ZERO = "·"
_TRACED_ROWS = 24
_TRACED_WIDTH = 10


def rational(value: Fraction) -> str:
    """Return a rational as text, whatever its length."""
    from flint import fmpq

    return str(fmpq(value.numerator, value.denominator))


def print_matrices(blueprint: Blueprint, screen: Console) -> None:
    """Print every matrix that is not empty: as a table where it fits, else as its non-zeros."""
    for path, matrix in blueprint.matrices():
        if not matrix.rows * matrix.columns:
            continue
        rows, columns = labels(blueprint, path)
        heading = Text.assemble(
            (title(blueprint, path), "bold"),
            (f"   {matrix.rows} × {matrix.columns}, {matrix.nonzeros:,} non-zero", "dim"),
        )
        screen.print(Group(heading, _drawn(matrix, rows, columns, screen), ""))


def _drawn(matrix: Matrix, rows: list[str], columns: list[str], screen: Console) -> RenderableType:
    if not matrix.nonzeros:
        return Text("  all zero", style="dim")
    # A table wider than the screen would lose digits; a list of non-zeros never does.
    if matrix.columns > 1 and matrix.rows * matrix.columns <= _DENSE:
        cells = [
            [rational(value) if (value := matrix[i, j]) else _ZERO for j in range(matrix.columns)]
            for i in range(matrix.rows)
        ]
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        if max(map(len, rows)) + sum(widths) + 3 * len(widths) <= screen.width:
            table = empty_table("", *columns, right=1)
            table.columns[0].style = "cyan"
            for name, row in zip(rows, cells, strict=True):
                table.add_row(name, *(Text(c, style="dim" if c == _ZERO else "") for c in row))
            return table
    lines = [
        f"  {_place(rows[i], columns[j])} = {rational(value)}"
        for (i, j), value in list(matrix.entries.items())[:MOST_ENTRIES]
    ]
    if (more := matrix.nonzeros - MOST_ENTRIES) > 0:
        lines.append(f"  … and {more:,} more non-zeros; --json gives all")
    return Text("\n".join(lines), overflow="fold")


def _place(row: str, column: str) -> str:
    return f"{row} ← {column}" if row and column else row or column or "value"


def as_data(blueprint: Blueprint) -> dict[str, Any]:
    """Return every matrix as plain data: shape, names, and ``[row, column, "p/q"]`` from 0."""
    return {
        path: {
            "shape": list(matrix.shape),
            "rows": labels(blueprint, path)[0],
            "columns": labels(blueprint, path)[1],
            "entries": [[i, j, rational(value)] for i, j, value in matrix],
        }
        for path, matrix in blueprint.matrices()
    }


def print_trace(trace: Trace, screen: Console) -> None:
    """Print every tensor of a trace in order; of a large one, its shape only."""
    for name, tensor in trace.items():
        shape = " × ".join(map(str, tensor.shape)) or "one number"
        heading = Text.assemble((name, "bold"), (f"   {shape}", "dim"))
        screen.print(Group(heading, _numbers(tensor, trace.dimensions, screen), ""))


def _numbers(tensor: Tensor, dimensions: tuple[str, ...], screen: Console) -> RenderableType:
    rows = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor
    if rows.dim() > 2 or len(rows) > _TRACED_ROWS:
        return Text("  --json gives its numbers", style="dim")
    columns = rows.shape[1]
    is_stream = tensor.dim() == 2 and columns == len(dimensions)
    heads = dimensions if is_stream else tuple(str(j + 1) for j in range(columns))
    if sum(max(_TRACED_WIDTH, len(head)) + 2 for head in heads) > screen.width:
        return Text("  --json gives its numbers", style="dim")
    table = empty_table(*heads, right=0)
    table.show_header = is_stream
    for column in table.columns:
        column.min_width = _TRACED_WIDTH
    for values in rows.tolist():
        table.add_row(*(f"{value:.6g}" for value in values))
    return table
