"""``exactformer inspect``: what is inside a saved model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.support.options import Json, ModelFile, coordinates
from exactformer.cli.support.output import console, print_json, shortened
from exactformer.errors import CertificationError, ExactformerError, InputError, SizeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from exactformer.core.layers import Block, Head
    from exactformer.core.matrix import Matrix
    from exactformer.core.model import Trace
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
        typer.Option(
            help="An input, e.g. 0.5,-1 (sequences: token after token). Prints the trace of the "
            "model at it, or draws its attention with --plot, which takes a random one otherwise."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a model is: its counts, dimensions and layers, and its certificate.

    A polynomial's counts stand beside the theorem's formulas. What the file holds is shown even where
    it cannot be proven; exactformer certify fails there.
    """
    from exactformer.cli.support.descriptions import NAMES, read_blueprint
    from exactformer.core.loading import family_of

    family = family_of(file)
    if family != "polynomials":
        for option, given in (("--matrices", matrices), ("--plot", plot)):
            if given:
                raise InputError(
                    f"{option} shows models of polynomials, and {file} holds a {NAMES[family]} "
                    "model; --json gives its layers, --at its trace"
                )
    blueprint = read_blueprint(file)
    model, problem = _proven(file)
    drawn = None if plot is None else _plot(_needed(model, problem), plot, at)
    trace = None if at is None or plot is not None else _trace(_needed(model, problem), family, at)
    if as_json:
        data = _data(family, blueprint, matrices) | _certificate_data(model, problem)
        traced = {} if trace is None else {"trace": {k: t.tolist() for k, t in trace.items()}}
        print_json(data | (drawn or {}) | traced)
        return
    screen = console()
    _show(family, blueprint, screen)
    _show_certificate(model, problem, screen)
    if matrices:
        from exactformer.cli.support.matrices import matrices as exact

        for matrix in exact(blueprint, screen):
            screen.print(matrix)
    if drawn is not None:
        screen.print(f"Drawn in {drawn['figure']} at {drawn['at']}")
    if trace is not None:
        from exactformer.cli.support.traces import shown

        for part in shown(trace, screen):
            screen.print(part)


def _proven(file: Path) -> tuple[Any, ExactformerError | None]:
    """Return the model, or why there is none."""
    from exactformer.core.loading import load

    try:
        return load(file), None
    except (CertificationError, SizeError) as error:
        return None, error


def _needed(model: Any, problem: ExactformerError | None) -> Any:
    if problem is not None:
        raise problem
    return model


def _plot(model: Any, plot: Path, at: str | None) -> dict[str, Any]:
    from exactformer.core.domain import points_in_domain
    from exactformer.figures import architecture_figure, save_figure

    point = (
        points_in_domain(1, model.blueprint.domain, len(model.blueprint.variables))[0].tolist()
        if at is None
        else coordinates(at)
    )
    save_figure(architecture_figure(model, point), plot)
    return {"figure": str(plot), "at": point}


def _trace(model: Any, family: str, at: str) -> Trace:
    """Return what happens at one input."""
    import numpy as np

    from exactformer.cli.support.descriptions import NAMES

    if not hasattr(model, "trace"):
        raise InputError(f"--at: a {NAMES[family]} model has no trace; exactformer predict runs it")
    numbers = np.array(coordinates(at.replace(";", " ")))
    if family == "sequences":
        shape = (model.blueprint.tokens, model.blueprint.dim)
        if numbers.size != shape[0] * shape[1]:
            raise InputError(
                f"--at {at.strip()!r}: {shape[0]} tokens of dimension {shape[1]} are "
                f"{shape[0] * shape[1]} numbers, not {numbers.size}"
            )
        numbers = numbers.reshape(shape)
    trace: Trace = model.trace(numbers)
    return trace


def _data(family: str, blueprint: Any, matrices: bool) -> dict[str, Any]:
    from exactformer.cli.support.descriptions import model_facts

    data = {"family": family, **model_facts(blueprint)}
    return data | _polynomial_data(blueprint, matrices) if family == "polynomials" else data


def _certificate_data(model: Any, problem: ExactformerError | None) -> dict[str, Any]:

    try:
        return {"certificate": _needed(model, problem).certificate.to_dict(), "problem": None}
    except (CertificationError, SizeError) as error:
        return {"certificate": None, "problem": str(error)}


def _polynomial_data(blueprint: Blueprint, matrices: bool) -> dict[str, Any]:
    from exactformer.cli.support.matrices import as_data

    theorem = _theorem(blueprint)
    return {
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
    }


def _theorem(blueprint: Blueprint) -> TheoremCounts:
    from exactformer.polynomials.constructions.paper import TheoremCounts

    return TheoremCounts(blueprint.tokens, len(blueprint.variables), blueprint.degree)


def _show(family: str, blueprint: Any, screen: Console) -> None:
    if family == "polynomials":
        _show_polynomial(blueprint, screen)
        return
    from exactformer.cli.support.descriptions import rows_of
    from exactformer.cli.support.panels import facts_grid, row

    rows = facts_grid()
    for name, value in rows_of(blueprint).items():
        row(rows, name, value)
    row(rows, "dimensions", " | ".join(_runs(blueprint.dimensions)))
    screen.print(rows, "")


def _show_certificate(model: Any, problem: ExactformerError | None, screen: Console) -> None:
    from exactformer.cli.support.panels import NOT_PROVEN, add_certificate, facts_grid, row

    rows = facts_grid()
    try:
        add_certificate(rows, _needed(model, problem).certificate)
    except (CertificationError, SizeError) as error:
        row(rows, "certificate", f"none: {error}", NOT_PROVEN)
    screen.print(rows, "")


def _show_polynomial(blueprint: Blueprint, screen: Console) -> None:
    from rich.text import Text

    from exactformer.cli.support.descriptions import variable_list

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
