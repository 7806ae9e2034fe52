"""``exactformer inspect``: what is inside a saved model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.options import Json, ModelFile, coordinates
from exactformer.cli.output import console, print_json, shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from exactformer.core.layers import Block, Head
    from exactformer.core.matrix import Matrix
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.polynomials.constructions.paper import TheoremCounts


def inspect(
    file: ModelFile,
    matrices: Annotated[
        bool, typer.Option("--matrices", help="Print every matrix, entry by entry, exactly.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw matrices and attention into this .png, .svg or .pdf."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="The input to draw attention for, e.g. 0.5,-1; random if absent."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a model's layers, and its counts beside the theorem's formulas.

    This reads what the file holds; exactformer certify proves what it computes.
    """
    from exactformer.polynomials.files import load_blueprint

    blueprint = load_blueprint(file)
    drawn = None if plot is None else _plot(file, plot, at)
    if as_json:
        print_json(_data(blueprint, matrices, drawn))
        return
    screen = console()
    _show(blueprint, screen)
    if matrices:
        from exactformer.cli.matrices import matrices as exact

        for matrix in exact(blueprint, screen):
            screen.print(matrix)
    if drawn is not None:
        screen.print(f"Drawn in {drawn['figure']} at {drawn['at']}")


def _plot(file: Path, plot: Path, at: str | None) -> dict[str, Any]:
    from exactformer.figures import architecture_figure, save_figure
    from exactformer.polynomials.check import load
    from exactformer.polynomials.measure import points_in_domain

    model = load(file)
    point = points_in_domain(1, model.blueprint)[0].tolist() if at is None else coordinates(at)
    save_figure(architecture_figure(model, point), plot)
    return {"figure": str(plot), "at": point}


def _data(blueprint: Blueprint, matrices: bool, drawn: dict[str, Any] | None) -> dict[str, Any]:
    from exactformer.cli.matrices import as_data
    from exactformer.cli.panels import model_facts

    theorem = _theorem(blueprint)
    return {
        **model_facts(blueprint),
        "dimensions": list(blueprint.dimensions),
        "layers": [
            {"path": path, "shape": list(matrix.shape), "nonzeros": matrix.nonzeros}
            for path, matrix in blueprint.matrices()
        ],
        "theorem": {
            "n_q": theorem.lemma_width,
            "nonzeros_per_block": theorem.per_block,
            "free_parameters": theorem.free,
            "nonzeros": theorem.total,
            "free_parameters_bound": theorem.free_bound,
            "nonzeros_bound": theorem.total_bound,
        },
        **({"matrices": as_data(blueprint)} if matrices else {}),
        **(drawn or {}),
    }


def _theorem(blueprint: Blueprint) -> TheoremCounts:
    from exactformer.polynomials.constructions.paper import TheoremCounts

    return TheoremCounts(blueprint.tokens, len(blueprint.variables), blueprint.degree)


def _show(blueprint: Blueprint, screen: Console) -> None:
    from rich.text import Text

    from exactformer.cli.panels import variable_list

    target = shortened(blueprint.metadata.get("target", "not named"))
    screen.print(Text.assemble("\n", (target, "bold")))
    screen.print(
        f"on {blueprint.domain}, variables {variable_list(blueprint.variables)}; "
        f"{blueprint.construction} construction\n",
    )
    if "approximation" in blueprint.metadata:
        from exactformer.polynomials.functions.report import Approximation

        screen.print(f"Approximates {Approximation.of(blueprint.metadata)}\n")
    screen.print(_layers(blueprint))
    rules = sorted({block.attention.selection.rule.value for block in blueprint.blocks})
    screen.print(f"\nA token is   {' | '.join(_runs(blueprint.dimensions))}")
    screen.print(f"Selection    {', '.join(rules) or 'none'}\n")
    screen.print(_counts(blueprint), "")


def _layers(blueprint: Blueprint) -> Table:
    embedding = blueprint.embedding
    table = _empty("Block", "Matrices", "Non-zeros", "Writes")
    parts = {"F": embedding.features, "E": embedding.constant}
    table.add_row("embedding", *_sizes(parts), "tokens")
    for b, block in enumerate(blueprint.blocks, start=1):
        _add_block(table, b, block, blueprint.dimensions)
    for k, readout in enumerate(blueprint.readouts, start=1):
        shapes, nonzeros = _sizes({"β": readout.beta})
        which = f" {k}" if blueprint.vector else ""
        count = f"{nonzeros} + {int(readout.bias != 0)}"
        table.add_row(f"readout{which}", f"{shapes}  b", count, f"output{which or ' of the model'}")
    return table


def _add_block(table: Table, b: int, block: Block, dimensions: tuple[str, ...]) -> None:
    heads, first = block.attention.heads, 1
    for sizes, alike in groupby(heads, key=_head_sizes):
        group = list(alike)
        last = first + len(group) - 1
        which = "" if len(heads) == 1 else f" {first}" if last == first else f" {first} … {last}"
        shapes, nonzeros = sizes
        count = nonzeros if last == first else f"{len(group)} × ({nonzeros})"
        rows = {i for head in group for i in head.value.by_row}
        table.add_row(f"{b} attention{which}", shapes, count, _written(rows, dimensions))
        first = last + 1
    layer = block.feed_forward
    parts = {"W_1": layer.w1, "b_1": layer.b1, "W_2": layer.w2, "b_2": layer.b2}
    kept = {name: matrix for name, matrix in parts.items() if matrix.nonzeros}
    written = _written(layer.w2.by_row.keys() | layer.b2.by_row.keys(), dimensions)
    table.add_row(f"{b} feed-forward", *_sizes(kept), written)


def _head_sizes(head: Head) -> tuple[str, str]:
    return _sizes({"W_Q": head.query, "W_K": head.key, "W_V": head.value})


def _written(rows: Collection[int], dimensions: tuple[str, ...]) -> str:
    return ", ".join(_runs(tuple(dimensions[i] for i in sorted(rows))))


def _sizes(parts: Mapping[str, Matrix]) -> tuple[str, str]:
    return (
        "  ".join(f"{name} {m.rows}×{m.columns}" for name, m in parts.items()) or "none",
        " + ".join(f"{m.nonzeros:,}" for m in parts.values()) or "0",
    )


def _counts(blueprint: Blueprint) -> Table:
    counts, theorem = blueprint.counts(), _theorem(blueprint)
    per_block = sorted({min(counts.per_block), max(counts.per_block)}) if counts.per_block else []
    table = _empty("Count", "This model", "Theorem 3.5", "Formula")
    table.columns[1].justify = "right"
    rows: list[tuple[str, str, int, str]] = [
        ("tokens", f"{counts.tokens:,}", theorem.lemma_width, "n_q = C(d−1+q, q)"),
        ("blocks", f"{counts.depth:,}", theorem.q, "q"),
        (
            "non-zeros a block",
            " … ".join(f"{v:,}" for v in per_block) or "–",
            theorem.per_block,
            "2n + 8",
        ),
        ("free parameters", f"{counts.free:,}", theorem.free, "nd + nq + 1"),
        ("  bound for n = n_q", "", theorem.free_bound, "d^(q+1) + q d^q + 1"),
        ("non-zeros in all", f"{counts.total:,}", theorem.total, "nd + 3nq + 8q + 1"),
        ("  bound for n = n_q", "", theorem.total_bound, "d^(q+1) + 3q d^q + 8q + 1"),
    ]
    for name, ours, formula, words in rows:
        table.add_row(name, ours, _large(formula), words)
    table.caption = f"n = {counts.tokens:,}, d = {theorem.d}, q = {theorem.q}"
    table.caption_justify = "left"
    return table


def _empty(*heads: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(*heads, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="cyan")
    table.columns[2].justify = "right"
    return table


def _large(value: int) -> str:
    return f"{value:,}" if value < 10**15 else f"{float(value):.3g}" if value < 10**300 else "huge"


def _runs(dimensions: tuple[str, ...]) -> list[str]:
    """Return names with numbered neighbours gathered: ``position 1 … 11``."""
    runs = []
    for stem, group in groupby(dimensions, key=lambda name: name.rstrip("0123456789")):
        names = list(group)
        last = names[-1].removeprefix(stem)
        runs.append(names[0] if len(names) == 1 else f"{names[0]} … {last}")
    return runs
