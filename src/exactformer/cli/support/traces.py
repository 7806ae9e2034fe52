"""A trace on the terminal: every tensor by name, small ones with their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from exactformer.cli.support.output import empty_table

if TYPE_CHECKING:
    from torch import Tensor

    from exactformer.core.model import Trace

_MOST_ROWS = 24
_CELL = 10


def shown(trace: Trace, screen: Console) -> Iterator[RenderableType]:
    """Yield every tensor of a trace in order; of a large one, its shape only."""
    for name, tensor in trace.items():
        shape = " × ".join(map(str, tensor.shape)) or "one number"
        heading = Text.assemble((name, "bold"), (f"   {shape}", "dim"))
        yield Group(heading, _numbers(tensor, trace.dimensions, screen), "")


def _numbers(tensor: Tensor, dimensions: tuple[str, ...], screen: Console) -> RenderableType:
    rows = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor
    if rows.dim() > 2 or len(rows) > _MOST_ROWS:
        return Text("  --json gives its numbers", style="dim")
    columns = rows.shape[1]
    is_stream = tensor.dim() == 2 and columns == len(dimensions)
    heads = dimensions if is_stream else tuple(str(j + 1) for j in range(columns))
    if sum(max(_CELL, len(head)) + 2 for head in heads) > screen.width:
        return Text("  --json gives its numbers", style="dim")
    table = empty_table(*heads, right=0)
    table.show_header = is_stream
    for column in table.columns:
        column.min_width = _CELL
    for values in rows.tolist():
        table.add_row(*(f"{value:.6g}" for value in values))
    return table
