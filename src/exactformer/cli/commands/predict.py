"""``exactformer predict``: a saved model on a table of points or sequences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from exactformer.cli.support.options import (
    Dtype,
    Executor,
    Force,
    Json,
    MemoryLimit,
    ModelFile,
    in_bytes,
    out_file,
    torch_dtype,
)
from exactformer.cli.support.output import console, print_json
from exactformer.core.whole_files import write_bytes
from exactformer.core.words import at_most
from exactformer.errors import InputError, OutsideDomainError

if TYPE_CHECKING:
    from exactformer.cli.support.points import Points
    from exactformer.cli.support.rows import RowFunction
    from exactformer.programs.model import ProgramModel


def predict(
    file: ModelFile,
    points: Annotated[Path | None, typer.Argument()] = None,
    out: Annotated[Path | None, out_file(".csv", ".npy", dash=True)] = None,
    force: Force = False,
    outside: str = "raise",
    dtype: Dtype = "float64",
    executor: Executor = None,
    ignore_extra: bool = False,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Evaluate a saved model, proven anew on loading, at the rows of a file or a pipe.

    A row of a polynomial's table is a point. A row for a sequence map or a coupling is a sequence:
    tokens times dimension numbers, token after token, and so is a row of the output. A line for a
    program is a sequence of its tokens, with commas or one character each; so are the values.

    A CSV header may name the columns in any order (the variables; for sequences token 1, token 2, …,
    or token 1.1, token 1.2, …). The output has a header if the input has one, for sequences always.
    Numbers are rounded to --dtype first, and values are written with all their digits. A
    polynomial's are within the certified bound of it.

    Args:
        points: CSV or NPY, one point or sequence per row; - or nothing reads standard input.
        out: Write here (.csv or .npy); to standard output if absent.
        outside: Rows outside the domain: raise or nan; also allow for polynomials (nothing is proven
            there), zero for sequence maps.
        ignore_extra: Leave out columns that are not variables.
    """
    from exactformer.cli.support.points import read_points
    from exactformer.cli.support.rows import open_model
    from exactformer.core.loading import family_of, load

    source, target = (None if str(path) == "-" else path for path in (points, out))
    limit = in_bytes(memory_limit)
    if family_of(file) == "programs":
        if outside != "raise":
            raise InputError(f"--outside {outside}: a program has no value outside its vocabulary")
        model = load(file, dtype=torch_dtype(dtype), executor=executor, memory_limit=limit)
        _decode(cast("ProgramModel", model), source, target, as_json)
        return
    function = open_model(file, dtype, executor, outside, limit)
    if source is None and sys.stdin.isatty():
        names = ", ".join(function.columns)
        typer.echo(f"One {function.unit} per line ({names}); Ctrl-D ends.", err=True)
    summary = _run(function, read_points(source, function.columns, ignore_extra), target, as_json)
    if as_json:
        print_json(summary, target)
    elif target is not None:
        _show(summary, target, function)


def _decode(model: ProgramModel, source: Path | None, out: Path | None, as_json: bool) -> None:
    """Run a program on every line, a sequence of tokens, and write lines of values."""
    from exactformer.cli.support.tokens import lines_of, shown
    from exactformer.programs.token_text import read_tokens

    rows = [read_tokens(line, model.vocabulary) for line in lines_of(source)]
    values = [model.decode([row])[0] for row in rows]
    lines = [",".join(map(shown, row)) for row in values]
    if out is not None:
        write_bytes("".join(f"{line}\n" for line in lines).encode(), out)
    if as_json:
        kept = {} if out is not None else {"values": [[shown(v) for v in row] for row in values]}
        dtype = model.certificate.dtype
        print_json({"sequences": len(rows), "outside": 0, "dtype": dtype, **kept}, out)
    elif out is None:
        typer.echo("\n".join(lines))
    else:
        console().print(f"{len(rows):,} sequences in {out}.")


def _run(function: RowFunction, table: Points, out: Path | None, as_json: bool) -> dict[str, Any]:
    """Read, evaluate and write in step; return the facts about the run."""
    import numpy as np

    from exactformer.cli.support.evaluation import in_order
    from exactformer.cli.support.points import BATCH
    from exactformer.cli.support.values import values_to
    from exactformer.progress import progress

    kept: list[Any] = []
    count = outside = 0
    to_list = out is None and as_json
    named = table.has_header or function.family != "polynomials"
    with (
        values_to(out, function.outputs if named and not to_list else (), function.shape) as write,
        progress(f"{function.unit}s", len(table.points)) as advance,
    ):
        for start, (values, off) in in_order(
            lambda k: function(table.points[k : k + BATCH]), range(0, len(table.points), BATCH)
        ):
            if function.outside == "raise" and off.any():
                raise _off_domain(function, table, start + int(np.flatnonzero(off)[0]))
            outside += int(off.sum())
            count += len(values)
            if to_list:
                kept += values.tolist()
            else:
                write(values)
            advance(start + len(values))
    bound = None if function.outside == "allow" else function.bound()
    summary: dict[str, Any] = {
        "target": function.model.blueprint.metadata.get("target"),
        f"{function.unit}s": count,
        "outside": outside,
        "dtype": str(function.dtype).removeprefix("torch."),
        "executor": function.model.executor,
        "bound": bound,
        "norm": None if bound is None else bound.norm,
        "kind": None if bound is None else str(bound.kind),
    }
    return summary | ({"values": kept} if to_list else {})


def _off_domain(function: RowFunction, table: Points, row: int) -> OutsideDomainError:
    from exactformer.cli.support.rows import OUTSIDE

    others = " or ".join(way for way in OUTSIDE[function.family] if way != "raise")
    return OutsideDomainError(
        f"{table.name}, {table.unit} {table.places[row]}: {function.where(table.points[row])}, where "
        f"nothing is proven; compile for a larger domain, or choose --outside {others}"
    )


def _show(summary: dict[str, Any], out: Path, function: RowFunction) -> None:
    units, bound = f"{function.unit}s", summary["bound"]
    is_polynomial = function.family == "polynomials"
    text = f"{summary[units]:,} {'values' if is_polynomial else 'sequences'} in {out}"
    if bound is not None and is_polynomial:
        text += f", each within {at_most(bound)} of the polynomial"
    elif bound is not None:
        from exactformer.cli.support.panels import bound_text

        text += f"; {bound_text(bound)}"
    if summary["outside"]:
        fate = "are zero" if function.outside == "zero" else "are NaN"
        text += f"; {summary['outside']:,} {units} lie off the domain and {fate}"
    console().print(text + ".")
