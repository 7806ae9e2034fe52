"""``exactformer predict``: a saved model on a table of points."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.options import (
    Dtype,
    Executor,
    Json,
    MemoryLimit,
    ModelFile,
    in_bytes,
    torch_dtype,
)
from exactformer.cli.output import console, print_json
from exactformer.errors import InputError, OutsideDomainError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from exactformer.cli.points import Batch, Points
    from exactformer.core.domain import Domain
    from exactformer.polynomials.model import PolynomialModel

_OUTSIDE = ("raise", "nan", "allow")


def predict(
    file: ModelFile,
    points: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or NPY, one point a row; - or nothing reads standard input.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write here, .csv or .npy; standard output if absent."),
    ] = None,
    outside: Annotated[
        str, typer.Option(help="Points off the domain: raise, nan or allow (nothing is proven).")
    ] = "raise",
    dtype: Dtype = "float64",
    executor: Executor = None,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Leave out columns that are no variables.")
    ] = False,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Evaluate a saved model, proven anew on loading, at points from a file or a pipe.

    A CSV header may name the variables in any order, and is answered with a header; a vector has a
    column for every component. Points are rounded to --dtype first; every value is then within the
    certified bound of the polynomial there, and is written with all its digits.
    """
    from exactformer.cli.points import open_points
    from exactformer.polynomials.check import load

    if outside not in _OUTSIDE:
        raise InputError(f"--outside {outside}: choose one of {', '.join(_OUTSIDE)}")
    # Points off the domain come back as NaN, which tells this command what line they stand on.
    model = load(
        file,
        dtype=torch_dtype(dtype),
        executor=executor,
        outside="allow" if outside == "allow" else "nan",
        memory_limit=in_bytes(memory_limit),
    )
    source, target = _not_dash(points), _not_dash(out)
    if source is None and sys.stdin.isatty():
        names = ", ".join(model.blueprint.variables)
        typer.echo(f"One point a line ({names}); Ctrl-D ends.", err=True)
    with open_points(source, model.blueprint.variables, ignore_extra) as table:
        summary = _run(model, table, target, outside, as_json)
    if as_json:
        print_json(summary)
    elif target is not None:
        _show(summary)


def _not_dash(path: Path | None) -> Path | None:
    return None if path is None or str(path) == "-" else path


def _run(
    model: PolynomialModel, table: Points, out: Path | None, outside: str, as_json: bool
) -> dict[str, Any]:
    """Read, evaluate and write in step; return what there is to say about it."""
    import numpy as np

    from exactformer.cli.evaluation import in_order, values
    from exactformer.cli.progress import progress
    from exactformer.cli.values import values_to

    kept: list[Any] = []
    count = off_domain = 0
    shape = (len(model.blueprint.readouts),) if model.blueprint.vector else ()
    columns = [f"value {k + 1}" for k in range(*shape)] if shape else ["value"]
    to_list = out is None and as_json
    with (
        values_to(out, columns if table.has_header and not to_list else (), shape) as write,
        progress("points", table.total) as advance,
    ):
        for batch, result in in_order(lambda b: values(model, b.points), table.batches):
            missing = np.flatnonzero(np.isnan(result).any(axis=tuple(range(1, result.ndim))))
            if outside == "raise" and len(missing):
                raise _off_domain(model, table, batch, int(missing[0]))
            off_domain += len(missing) if outside == "nan" else 0
            count += len(result)
            if to_list:
                kept += result.tolist()
            else:
                write(result)
            advance(batch.progress)
    bound = model.certificate.bound(model.dtype, model.executor)
    summary: dict[str, Any] = {
        "target": model.target,
        "points": count,
        "outside": off_domain,
        "dtype": str(model.dtype).removeprefix("torch."),
        "executor": model.executor,
        "bound": None if outside == "allow" else bound,
        "saved": None if out is None else str(out),
    }
    return summary | ({"values": kept} if to_list else {})


def _off_domain(
    model: PolynomialModel, table: Points, batch: Batch, row: int
) -> OutsideDomainError:
    blueprint = model.blueprint
    where = _where(blueprint.domain, blueprint.variables, batch.points[row])
    return OutsideDomainError(
        f"{table.place(batch.places[row])}: the point has {where}, outside {blueprint.domain}, where "
        "nothing is proven; compile for a larger domain, or choose --outside nan or allow"
    )


def _where(domain: Domain, variables: Sequence[str], point: NDArray[Any]) -> str:
    """Say what is too large: a distance, or the coordinate farthest off its interval."""
    import numpy as np

    from exactformer.core.domain import Box

    axes = range(len(variables))
    offsets = point - [float(domain.offset(j)) for j in axes]
    if isinstance(domain, Box):
        j = int(np.argmax(np.abs(offsets) / [float(domain.extent(k)) for k in axes]))
        return f"{variables[j]} = {point[j]:.6g}"
    name = "distance" if any(domain.centre) else "norm"
    return f"{name} {float(np.linalg.norm(offsets)):.6g}"


def _show(summary: dict[str, Any]) -> None:
    text = f"{summary['points']:,} values in {summary['saved']}"
    if summary["bound"] is not None:
        text += f", each within {summary['bound']:.3g} of the polynomial"
    if summary["outside"]:
        text += f"; {summary['outside']:,} points lie off the domain and are NaN"
    console().print(text + ".")
