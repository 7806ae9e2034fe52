"""A certificate as people like to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from exactformer.cli.output import shortened
from exactformer.polynomials.proof.softmax_certificate import SoftmaxCertificate

if TYPE_CHECKING:
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.polynomials.proof.certificate import PolynomialCertificate

PROVEN = ("✓", "bold green")
NOT_PROVEN = ("✗", "bold red")
INFORMATION = (" ", "")
_COLUMN = 12


def certificate_panel(
    certificate: PolynomialCertificate,
    blueprint: Blueprint | None = None,
    title: str = "Compiled and certified",
    saved: str | None = None,
) -> Panel:
    """Return target, size and proofs in a frame."""
    rows = facts_grid()
    _row(rows, INFORMATION, "polynomial", Text(shortened(certificate.target), style="bold"))
    count = len(certificate.variables)
    _row(
        rows,
        INFORMATION,
        "domain",
        f"{certificate.domain} in {count} variable{'' if count == 1 else 's'}"
        f" ({variable_list(certificate.variables)})",
    )
    _row(rows, INFORMATION, "transformer", _size(certificate, blueprint))
    if blueprint is not None:
        counts = blueprint.counts()
        _row(
            rows,
            INFORMATION,
            "parameters",
            f"{counts.free:,} free, {counts.total:,} non-zeros in all",
        )
    rows.add_row("", "", "")
    if isinstance(certificate, SoftmaxCertificate):
        _softmax_proofs(rows, certificate)
    else:
        _exact_proofs(rows, certificate)
    if saved is not None:
        rows.add_row("", "", "")
        _row(rows, INFORMATION, "saved", saved)
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


def variable_list(variables: tuple[str, ...], most: int = 6) -> str:
    """Return names with commas; of many, the first and the last."""
    if len(variables) <= most:
        return ", ".join(variables) or "none"
    return f"{variables[0]}, {variables[1]}, …, {variables[-1]}"


def model_facts(blueprint: Blueprint) -> dict[str, Any]:
    """Return what a model is, as plain data."""
    counts = blueprint.counts()
    return {
        "target": blueprint.metadata.get("target"),
        "variables": list(blueprint.variables),
        "domain": str(blueprint.domain),
        "radius": str(blueprint.radius),
        "outputs": len(blueprint.readouts),
        "degree": blueprint.degree,
        "construction": blueprint.construction,
        "directions": blueprint.metadata.get("directions"),
        "tokens": counts.tokens,
        "width": counts.width,
        "depth": counts.depth,
        "free_parameters": counts.free,
        "nonzeros_per_block": list(counts.per_block),
        "nonzeros": counts.total,
    }


def _row(rows: Table, mark: tuple[str, str], name: str, value: str | Text) -> None:
    rows.add_row(Text(*mark), name, Text(value) if isinstance(value, str) else value)


def _exact_proofs(rows: Table, certificate: PolynomialCertificate) -> None:
    margin = certificate.margin
    rival = "no token has a rival" if margin is None else f"margin ≥ {margin:.3g}"
    _row(rows, PROVEN, "selection", f"every token selects itself everywhere; {rival}")
    _row(rows, PROVEN, "identity", f"{_agreement(certificate.terms)} exactly: error zero")
    heads = f"{'fused':<{_COLUMN}}{'literal':<{_COLUMN}}"
    _row(rows, INFORMATION, "rounding ≤", Text(f"{heads}fused over max |Q|", style="dim"))
    for name, bound in certificate.fused.items():
        mark = NOT_PROVEN if bound.executed is None else PROVEN
        _row(rows, mark, name, _rounding(certificate, name))


def _softmax_proofs(rows: Table, certificate: SoftmaxCertificate) -> None:
    _row(rows, PROVEN, "attention", "every token attends to itself and one constant token")
    agreement = _agreement(certificate.terms)
    _row(rows, PROVEN, "identity", f"{agreement} exactly where softmax is replaced by its tangent")
    heads = "".join(f"{word:<{_COLUMN}}" for word in ("total", "truncation", "leakage", "rounding"))
    _row(rows, INFORMATION, "error ≤", Text(f"{heads}of max |Q|", style="dim"))
    for name, bound in certificate.errors.items():
        if bound.total is None:
            _row(rows, NOT_PROVEN, name, Text(f"no guarantee: {bound.reason}", style="dim"))
            continue
        parts = (bound.total, bound.truncation, bound.leakage, bound.rounding)
        text = Text("".join(f"{part:<{_COLUMN}.3g}" for part in parts))
        if 0 < certificate.scale < float("inf"):
            text.append(f"{bound.total / certificate.scale:.1e}", style="dim")
        _row(rows, PROVEN, name, text)


def _agreement(terms: int) -> str:
    if terms > 1:
        return f"all {terms:,} coefficients agree"
    return "the only coefficient agrees" if terms else "the output vanishes"


def _size(certificate: PolynomialCertificate, blueprint: Blueprint | None) -> str:
    tokens, depth = certificate.tokens, certificate.depth
    width = "" if blueprint is None else f" of width {blueprint.width}"
    how = certificate.construction
    if blueprint is not None and "directions" in blueprint.metadata:
        how = f"{how} construction, {blueprint.metadata['directions']} directions"
    return (
        f"{tokens:,} token{'' if tokens == 1 else 's'}{width}, "
        f"{depth} block{'' if depth == 1 else 's'} ({how})"
    )


def _rounding(certificate: PolynomialCertificate, name: str) -> Text:
    """Return the bounds of both executors: the closed form, and every matrix carried out."""
    fused, literal = certificate.fused[name], certificate.rounding[name]
    if fused.executed is None:
        return Text(f"no guarantee: {fused.reason}", style="dim")
    shown = "none" if literal.executed is None else f"{literal.executed:.3g}"
    text = Text(f"{fused.executed:<{_COLUMN}.3g}{shown:<{_COLUMN}}")
    if 0 < certificate.scale < float("inf"):
        text.append(f"{fused.executed / certificate.scale:.1e}", style="dim")
    return text
