"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.errors import InputError

if TYPE_CHECKING:
    import torch

_LONGEST = 1000


def check_free(force: bool, *paths: Path) -> None:
    """Refuse places that exist, unless they are files that ``--force`` replaces."""
    for path in paths:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a file; choose another place")
        if path.exists() and not force:
            raise InputError(f"{path} exists; choose another place, or replace it with --force")


def out_file(
    *endings: str, name: str = "--out", dash: bool = False, help: str | None = None
) -> Any:
    """Return ``-o/--out``, or another option, of a command that also takes ``force: Force``.

    A place where nothing can be written, or another ending, is refused before any work is done; ``-``
    too, unless the command takes it for standard output.
    """

    def check(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is None or (dash and str(path) == "-"):
            return path
        if str(path) == "-":
            raise InputError("- is not a file; this cannot be written to standard output")
        check_free(ctx.params["force"], path)
        if endings and path.suffix.lower() not in endings:
            others, _, last = ", ".join(endings).rpartition(", ")
            raise InputError(
                f"{path}: write {others} or {last}" if others else f"{path}: write {last}"
            )
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        return path

    return typer.Option(*([name] if name != "--out" else [name, "-o"]), help=help, callback=check)


Force = Annotated[
    bool, typer.Option("--force", is_eager=True, help="Replace output files that exist.")
]
Plot = Annotated[
    Path | None,
    out_file(".png", ".svg", ".pdf", name="--plot", help="Draw into this .png, .svg or .pdf."),
]
ModelOut = Annotated[
    Path | None, out_file(".safetensors", help="Save the model here (.safetensors).")
]
ModelFile = Annotated[Path, typer.Argument(help="A model saved by exactformer.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else, errors included.")
]
Dtype = Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")]
Executor = Annotated[
    str | None,
    typer.Option(
        help="literal for every matrix (default for polynomials), fused for the proven closed form "
        "where there is one (default elsewhere)."
    ),
]
MemoryLimit = Annotated[
    float, typer.Option(help="Refuse what needs more memory than this many GiB.", min=0)
]


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a format's name."""
    from exactformer.core.precision import as_dtype

    return as_dtype(name.strip())


def in_bytes(gibibytes: float) -> int:
    """Return a memory limit in bytes."""
    return int(gibibytes * 2**30)


def names(text: str | None) -> list[str] | None:
    """Return names given with commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def exact_text(text: str, what: str) -> str:
    """Return an exact number as text, short of one that takes exact arithmetic long to write out."""
    number = text.strip()
    if re.search(r"[eE][+-]?0*[1-9][0-9_]{3,}", number):
        raise InputError(f"{what} {number[:60]!r} is beyond 2^±500; rescale the variables")
    if len(number) > _LONGEST:
        raise InputError(
            f"{what} has {len(number):,} characters, the limit is {_LONGEST:,}; round the number"
        )
    return number


def intervals(text: str | None) -> list[tuple[str, str]] | None:
    """Return the sides of a box such as ``0,1; -1/2,3``, their ends as text: numbers stay exact."""
    if text is None:
        return None
    sides = [[end.strip() for end in side.split(",")] for side in text.removesuffix(";").split(";")]
    if any(len(ends) != 2 or not all(ends) for ends in sides):
        raise InputError(
            f"--domain {text.strip()!r}: a box is an interval for every variable, lower and upper end "
            "with a comma, semicolons between them: '0,1; -1/2,3'"
        )
    return [(low, high) for low, high in sides]


def coordinates(text: str) -> list[float]:
    """Return the numbers of a point such as ``0.5,-1/3``."""
    try:
        return [_coordinate(cell) for cell in text.replace(",", " ").split()]
    except InputError:
        raise InputError(f"--at {text.strip()!r}: a point is numbers with commas between") from None


def _coordinate(cell: str) -> float:
    from exactformer.algebra.rational import to_float
    from exactformer.core.given_domain import exact_number

    try:
        return float(cell)
    except ValueError:
        return to_float(exact_number(cell))


def sequence_at(text: str, tokens: int, dim: int) -> list[list[float]]:
    """Return a sequence (tokens, dim) such as ``0.1,0.7,0.4``, token after token."""
    numbers = coordinates(text.replace(";", " "))
    if len(numbers) != tokens * dim:
        raise InputError(
            f"--at {text.strip()!r}: {tokens} tokens of dimension {dim} are {tokens * dim} numbers, "
            f"not {len(numbers)}"
        )
    return [numbers[start : start + dim] for start in range(0, len(numbers), dim)]
