"""A certificate as people like to see it, whatever the family of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from exactformer.cli.support.output import shortened
from exactformer.core.certificate import Bound, Certificate, Kind
from exactformer.core.formats import FORMATS
from exactformer.core.words import at_most
from exactformer.errors import CertificationError

_MARKS = {
    Kind.PROVEN: ("✓", "bold green"),
    Kind.NUMERICAL: ("≈", "bold yellow"),
    Kind.ESTIMATED: ("?", "bold yellow"),
    Kind.STATED: ("!", "bold yellow"),
}
NOT_PROVEN = ("✗", "bold red")
_PLAIN = (" ", "")
_COLUMN = 12


def certificate_panel(
    certificate: Certificate,
    described: Mapping[str, str],
    saved: str | None = None,
    first: Mapping[str, str | Text] | None = None,
    measured: Mapping[str, Any] | None = None,
    title: str = "Compiled and certified",
) -> Panel:
    """Return what a model is and what is known of it, in a frame.

    ``described`` is what the model's ``rows()`` gives, ``first`` holds rows to begin with, ``measured``
    errors by their norm, as ``Measured.to_dict`` gives them.
    """
    rows, lines = facts_grid(), {**(first or {}), **described}
    if "polynomial" in lines and (target := getattr(certificate, "target", None)):
        lines["polynomial"] = target
    for name, value in lines.items():
        is_target = name in ("polynomial", "coupling")
        style = "bold" if is_target else ""
        row(rows, name, Text(shortened(value), style) if isinstance(value, str) else value)
    rows.add_row("", "", "")
    add_certificate(rows, certificate)
    if measured:
        rows.add_row("", "", "")
        _add_measured(rows, measured)
    if saved is not None:
        rows.add_row("", "", "")
        row(rows, "saved", saved)
    return Panel(
        rows,
        title=Text(title, style="bold"),
        title_align="left",
        border_style="green",
        box=box.ROUNDED,
        padding=(1, 2),
        expand=False,
    )


def facts_grid() -> Table:
    """Return an empty table of mark, name and value."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(style="cyan", no_wrap=True, min_width=11)
    grid.add_column(overflow="fold")
    return grid


def row(rows: Table, name: str, value: str | Text, mark: tuple[str, str] = _PLAIN) -> None:
    """Add a row; text is not read as markup."""
    rows.add_row(Text(*mark), name, Text(value) if isinstance(value, str) else value)


def add_certificate(rows: Table, certificate: Certificate) -> None:
    """Add the claims, each with its kind, and the bound: in every format, or with its parts."""
    for claim in certificate.claims:
        text = claim.text if claim.kind is Kind.PROVEN else str(claim)
        row(rows, claim.name, text, _MARKS[claim.kind])
    executors = getattr(certificate, "executors", None)
    if executors is None:
        _add_bound(rows, certificate)
    else:
        _add_formats(rows, certificate, executors)


def bound_text(bound: Bound) -> str:
    """Return a bound in a line; what is estimated is not called a bound."""
    if bound.kind is Kind.ESTIMATED:
        return f"{bound.norm} about {bound.total:.4g}, something in it being estimated,"
    text = f"{bound.norm} ≤ {at_most(bound.total, 4)}"
    return text if bound.kind is Kind.PROVEN else f"{bound.kind}: {text}"


def _add_bound(rows: Table, certificate: Certificate) -> None:
    try:
        bound = certificate.bound()
    except CertificationError as error:
        row(rows, "bound", Text(f"none: {error}", style="dim"))
        return
    row(rows, "error", f"{bound_text(bound)} in {certificate.dtype}", _MARKS[bound.kind])
    for name, value in bound.parts.items() if len(bound.parts) > 1 else ():
        row(rows, "", Text(f"{at_most(value):<{_COLUMN}}{name}", style="dim"))


def _add_formats(rows: Table, certificate: Certificate, executors: tuple[str, ...]) -> None:
    """Add a line for every number format: the bounds of all executors, or the parts of the only one."""
    scale, headed = getattr(certificate, "scale", 0.0), False
    for name in FORMATS:
        bounds, reason = _bounds(certificate, name, executors)
        if not bounds:
            row(rows, name, Text(f"no guarantee: {reason}", style="dim"), NOT_PROVEN)
            continue
        usual, others = bounds.get(executors[0]), executors[1:]
        columns = {e: at_most(bounds[e]) if e in bounds else "none" for e in executors}
        if usual is not None and not others:
            columns = {
                part: at_most(value) for part, value in {"total": usual, **usual.parts}.items()
            }
        if not headed:
            headed = True
            whole = f"{executors[0]} over max |Q|" if others else "of max |Q|"
            heads = "".join(f"{head:<{_COLUMN}}" for head in columns)
            label = "rounding ≤" if others else "error ≤"
            row(rows, label, Text(heads + whole, style="dim"))
        text = Text("".join(f"{value:<{_COLUMN}}" for value in columns.values()))
        if usual is not None and 0 < scale < float("inf"):
            text.append(at_most(usual / scale, 2), style="dim")
        row(rows, name, text, _MARKS[Kind.weakest(bound.kind for bound in bounds.values())])


def _bounds(
    certificate: Certificate, dtype: str, executors: tuple[str, ...]
) -> tuple[dict[str, Bound], str]:
    """Return the bounds that there are, by executor, and why the last one missing is."""
    bounds, reason = {}, ""
    for executor in executors:
        try:
            bounds[executor] = certificate.bound(dtype, executor)
        except CertificationError as error:
            reason = str(error).partition(": ")[2]
    return bounds, reason


def _add_measured(rows: Table, errors: Mapping[str, Any]) -> None:
    samples = next(iter(errors.values()))["samples"]
    row(rows, "measured", Text(f"on {samples:,} random inputs, ± one standard error", style="dim"))
    for name, found in errors.items():
        parts = [f"{part} {by['value']:.3g}" for part, by in found["parts"].items() if by["value"]]
        split = f"  ({', '.join(parts)})" if len(parts) > 1 else ""
        row(rows, name, f"{found['value']:.4g} ± {found['standard_error']:.1g}{split}")
