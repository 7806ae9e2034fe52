"""A sequence model as people like to see it: size, proofs, measured error, an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from exactformer.cli.panels import INFORMATION, NOT_PROVEN, PROVEN, facts_grid

if TYPE_CHECKING:
    from exactformer.core.certificate import Bound
    from exactformer.sequences.maps import NamedMap
    from exactformer.sequences.model import SequenceModel

_METHODS = {
    "exhaustive": "every class went through every layer in exact arithmetic",
    "keys": "by the algebra of the keys",
}


def sequence_panel(
    model: SequenceModel, target: NamedMap, errors: Mapping[str, Any], saved: str
) -> Panel:
    """Return what was built, what is proven and what was measured, in a frame."""
    blueprint, certificate = model.blueprint, model.certificate
    counts = blueprint.counts()
    n, d = blueprint.tokens, blueprint.dim
    layers = ", ".join(f"{name} {count:,}" for name, count in counts.layers.items())
    rows = facts_grid()

    def row(name: str, value: str | Text, mark: tuple[str, str] = INFORMATION) -> None:
        rows.add_row(Text(*mark), name, Text(value) if isinstance(value, str) else value)

    row("map", Text.assemble((target.name, "bold"), f": {target.summary}"))
    row("inputs", f"{n} token{'s' * (n > 1)} of dimension {d} in {certificate.support}")
    row("cells", f"{blueprint.cells} per side, δ = {blueprint.delta}")
    positions = "with positions" if blueprint.positional else "permutation equivariant"
    row("transformer", f"{blueprint.form} form, {positions}, width {counts.width}")
    row("layers", f"{counts.depth:,}: {layers}")
    row("weights", f"{counts.weights:,} that are not zero; keys of {counts.key_bits} bits")
    rows.add_row("", "", "")
    how = _METHODS[certificate.method]
    limit = "" if certificate.softness is None else "as sharpness grows: "
    all_classes = f"{limit}all {certificate.classes:,} classes exactly, error zero on the grid"
    row("table", all_classes, PROVEN)
    row("", Text(how, style="dim"))
    if certificate.rejected:
        row("equal cells", f"{certificate.rejected:,} classes go to 0", PROVEN)
    if certificate.outside:
        row("outside", "whatever lies outside the support goes to 0", PROVEN)
    else:
        row("outside", "the layers alone may take a token for one elsewhere", NOT_PROVEN)
    formats = [name for name, holds in certificate.float_exact.items() if holds]
    exact = f"exact in {', '.join(formats)}" if formats else "beyond every float format"
    row("keys", f"{certificate.smallest_key:,} to {certificate.largest_key:,}, {exact}", PROVEN)
    if certificate.softness is not None:
        mark = PROVEN if certificate.softness.selects else NOT_PROVEN
        for name, words in certificate.softness.lines().items():
            row(name, words, mark)
    if certificate.error is not None:
        rows.add_row("", "", "")
        _bound(row, certificate.bound())
    if errors:
        rows.add_row("", "", "")
        samples = next(iter(errors.values()))["samples"]
        row("measured", Text(f"on {samples:,} random inputs, ± one standard error", style="dim"))
        for name, found in errors.items():
            parts = [
                f"{part} {by['value']:.3g}" for part, by in found["parts"].items() if by["value"]
            ]
            split = f"  ({', '.join(parts)})" if len(parts) > 1 else ""
            row(name, f"{found['value']:.4g} ± {found['standard_error']:.1g}{split}")
    rows.add_row("", "", "")
    row("saved", saved)
    return Panel(
        rows,
        title=Text("Compiled and certified", style="bold"),
        title_align="left",
        border_style="green",
        box=box.ROUNDED,
        padding=(1, 2),
        expand=False,
    )


def _bound(row: Callable[..., None], bound: Bound) -> None:
    """Add the bound on d_2 with its parts, or what was estimated in its place."""
    from exactformer.sequences.proof.error import rounded_up

    name = bound.norm.partition("(")[0]
    parts = [f"{part} {value:.3g}" for part, value in bound.parts.items()]
    split = f"  ({', '.join(parts)})" if len(parts) > 1 else ""
    total = f"{rounded_up(bound.total):g}{split}"
    if bound.kind == "estimated":
        row(f"{name} about", f"{total}, the Lipschitz constant being estimated")
    else:
        row(f"{name} ≤", total, PROVEN)


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
