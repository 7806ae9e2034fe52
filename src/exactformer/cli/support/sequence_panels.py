"""A sequence model as people like to see it: size, proofs, measured error, an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from exactformer.cli.support.panels import certificate_panel

if TYPE_CHECKING:
    from exactformer.sequences.maps import NamedMap
    from exactformer.sequences.model import SequenceModel


def sequence_panel(
    model: SequenceModel, target: NamedMap, errors: Mapping[str, Any], saved: str
) -> Panel:
    """Return what was built, what is proven and what was measured, in a frame."""
    name = Text.assemble((target.name, "bold"), f": {target.summary}")
    return certificate_panel(
        model.certificate, model.blueprint, saved=saved, first={"map": name}, measured=errors
    )


def example_table(example: Mapping[str, Any]) -> Table:
    """Return one sequence, token by token: input, code, output, the map's own value."""
    table = Table(
        "Token", "Input", "Code", "Output", "The map's own", "Difference",
        box=box.SIMPLE_HEAD, show_edge=False, header_style="cyan",
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    columns = (example[key] for key in ("input", "codes", "output", "map"))
    for j, (x, code, y, wanted) in enumerate(zip(*columns, strict=True), start=1):
        away = max(abs(a - b) for a, b in zip(y, wanted, strict=True))
        table.add_row(f"{j}", _vector(x), f"{code:,}", _vector(y), _vector(wanted), f"{away:.2g}")
    return table


def _vector(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
