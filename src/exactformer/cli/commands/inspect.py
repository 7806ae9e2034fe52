"""``exactformer inspect``: what is inside a saved model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.cli.support.options import (
    Force,
    Json,
    MemoryLimit,
    ModelFile,
    Plot,
    coordinates,
    in_bytes,
    sequence_at,
)
from exactformer.cli.support.output import console, empty_table, print_json, print_saved, shortened
from exactformer.errors import CertificationError, ExactformerError, InputError, SizeError
from exactformer.progress import waiting

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
    matrices: bool = False,
    plot: Plot = None,
    force: Force = False,
    at: str | None = None,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Show what a model is: its counts, dimensions and layers, and its certificate.

    A polynomial's counts are compared with the theorem's formulas; of a program --plot draws the
    circuit. A model that cannot be proven is shown too; exactformer certify leaves with 1 there.

    Args:
        matrices: Print every matrix, entry by entry, exactly.
        at: An input, e.g. 0.5,-1 (sequences: token after token). Prints the trace of the model at it.
    """
    from exactformer.cli.support.families import name_of, read_blueprint
    from exactformer.cli.support.panels import NOT_PROVEN, add_certificate, facts_grid, row
    from exactformer.core.loading import family_of

    family = family_of(file)
    for option, given, shown in (
        ("--matrices", matrices, "polynomials"),
        ("--plot", plot is not None, "programs"),
    ):
        if given and family != shown:
            raise InputError(
                f"{option} shows models of {shown}, and {file} holds a {name_of(family)} model; "
                "--json gives its layers, --at its trace"
            )
    blueprint = read_blueprint(file)
    model, problem = _proven(file, _executor(family, blueprint), in_bytes(memory_limit))
    if problem is not None and (plot is not None or at is not None):
        raise problem
    if plot is not None:
        from exactformer.figures import circuit_figure, save_figure

        save_figure(circuit_figure(model), plot)
    trace = None if at is None else _trace(model, family, at)
    if as_json:
        certificate = None if model is None else model.certificate.to_dict()
        data = {"family": family, **blueprint.facts()}
        if family == "polynomials":
            data |= _polynomial_data(blueprint, matrices)
        data |= {"certificate": certificate, "problem": None if problem is None else str(problem)}
        if trace is not None:
            data["trace"] = {name: tensor.tolist() for name, tensor in trace.items()}
        print_json(data, plot)
        return
    screen = console()
    _show(family, blueprint, screen)
    rows = facts_grid()
    if model is None:
        row(rows, "certificate", f"none: {problem}", NOT_PROVEN)
    else:
        add_certificate(rows, model.certificate)
    screen.print(rows, "")
    if matrices:
        from exactformer.cli.support.matrices import print_matrices

        print_matrices(blueprint, screen)
    print_saved(plot)
    if trace is not None:
        from exactformer.cli.support.matrices import print_trace

        print_trace(trace, screen)


def _executor(family: str, blueprint: Any) -> str | None:
    """Return the executor that takes the least to load: nothing is evaluated by it."""
    from exactformer.polynomials.proof.softmax_symbolic import is_softmax

    return "fused" if family == "polynomials" and not is_softmax(blueprint) else None


def _proven(
    file: Path, executor: str | None, memory_limit: int
) -> tuple[Any, ExactformerError | None]:
    """Return the model, its certificate complete, or the reason why there is none."""
    from exactformer.core.loading import load

    try:
        with waiting("Prove", True):
            options = {} if executor is None else {"executor": executor}
            model = load(file, memory_limit=memory_limit, **options)
        model.certificate  # noqa: B018 - proven where it is asked for
        return model, None
    except (CertificationError, SizeError) as error:
        return None, error


def _trace(model: Any, family: str, at: str) -> Trace:
    """Return what happens at one input."""
    x: Any
    if family == "programs":
        from exactformer.programs.token_text import read_tokens

        x = model.encode(read_tokens(at, model.vocabulary))
    elif family == "sequences":
        x = sequence_at(at, model.blueprint.tokens, model.blueprint.dim)
    else:
        x = coordinates(at.replace(";", " "))
    trace: Trace = model.trace(x)
    return trace


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
    from exactformer.cli.support.panels import facts_grid, row

    rows = facts_grid()
    for name, value in blueprint.rows().items():
        row(rows, name, value)
    row(rows, "dimensions", " | ".join(_runs(blueprint.dimensions)))
    screen.print(rows, "")


def _show_polynomial(blueprint: Blueprint, screen: Console) -> None:
    from rich.text import Text

    from exactformer.algebra.printing import name_list

    target = shortened(blueprint.metadata.get("target", "not named"))
    screen.print(Text.assemble("\n", (target, "bold")))
    screen.print(
        f"on {blueprint.domain}, variables {name_list(blueprint.variables) or 'none'}; "
        f"{blueprint.construction} construction\n"
    )
    if "approximation" in blueprint.metadata:
        from exactformer.polynomials.functions.report import Approximation

        screen.print(Text(f"Approximates {Approximation.of(blueprint.metadata)}\n"), soft_wrap=True)
    screen.print(_layers(blueprint))
    rules = sorted({block.attention.selection.rule.value for block in blueprint.blocks})
    screen.print(f"\nA token is   {' | '.join(_runs(blueprint.dimensions))}")
    screen.print(f"Selection    {', '.join(rules) or 'none'}\n")
    screen.print(_counts(blueprint), "")


def _layers(blueprint: Blueprint) -> Table:
    embedding = blueprint.embedding
    table = empty_table("Block", "Matrices", "Non-zeros", "Writes")
    table.columns[2].justify = "right"
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
    heads, before = block.attention.heads, 0

    def own(head: Head) -> tuple[str, str]:
        return _sizes({"W_Q": head.query, "W_K": head.key, "W_V": head.value})

    for (shapes, nonzeros), alike in groupby(heads, key=own):
        group = list(alike)
        first, before = before + 1, before + len(group)
        several = len(group) > 1
        which = f" {first} … {before}" if several else f" {first}" if len(heads) > 1 else ""
        count = f"{len(group)} × ({nonzeros})" if several else nonzeros
        rows = {i for head in group for i in head.value.by_row}
        table.add_row(f"{b} attention{which}", shapes, count, _written(rows, dimensions))
    layer = block.feed_forward
    parts = {"W_1": layer.w1, "b_1": layer.b1, "W_2": layer.w2, "b_2": layer.b2}
    kept = {name: matrix for name, matrix in parts.items() if matrix.nonzeros}
    written = _written(layer.w2.by_row.keys() | layer.b2.by_row.keys(), dimensions)
    table.add_row(f"{b} feed-forward", *_sizes(kept), written)


def _written(rows: Collection[int], dimensions: tuple[str, ...]) -> str:
    return ", ".join(_runs(tuple(dimensions[i] for i in sorted(rows))))


def _sizes(parts: Mapping[str, Matrix]) -> tuple[str, str]:
    return (
        "  ".join(f"{name} {m.rows}×{m.columns}" for name, m in parts.items()) or "none",
        " + ".join(f"{m.nonzeros:,}" for m in parts.values()) or "0",
    )


def _counts(blueprint: Blueprint) -> Table:
    counts, theorem = blueprint.counts(), _theorem(blueprint)
    ends = sorted({min(counts.per_block), max(counts.per_block)}) if counts.per_block else []
    per_block = " … ".join(f"{count:,}" for count in ends) or "–"
    table = empty_table("Count", "This model", "Theorem 3.5", "Formula", right=1)
    table.columns[3].justify = "left"
    rows: list[tuple[str, str, int, str]] = [
        ("tokens", f"{counts.tokens:,}", theorem.lemma_width, "n_q = C(d−1+q, q)"),
        ("blocks", f"{counts.depth:,}", theorem.q, "q"),
        ("non-zeros per block", per_block, theorem.per_block, "2n + 8"),
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


def _large(value: int) -> str:
    return f"{value:,}" if value < 10**15 else f"{float(value):.3g}" if value < 10**300 else "huge"


def _runs(dimensions: tuple[str, ...]) -> list[str]:
    """Return names with numbered neighbours gathered: ``position 1 … 11``."""
    runs = []
    for stem, group in groupby(dimensions, key=lambda name: name.rstrip("0123456789.")):
        first, *others = group
        runs.append(f"{first} … {others[-1].removeprefix(stem)}" if others else first)
    return runs
