"""``exactformer export``: a saved model in other people's formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exactformer.cli.support.options import (
    Dtype,
    Executor,
    Force,
    Json,
    MemoryLimit,
    ModelFile,
    check_free,
    in_bytes,
    out_file,
    torch_dtype,
)
from exactformer.cli.support.output import console, print_json, shortened
from exactformer.errors import InputError
from exactformer.progress import waiting

_OUTSIDE = ("nan", "allow")


def export(
    file: ModelFile,
    format: Annotated[
        str, typer.Option(help="onnx, numpy (.npz) or torch (.pt2 of torch.export).")
    ] = "onnx",
    out: Annotated[Path | None, out_file("Write here; next to the model if absent.")] = None,
    force: Force = False,
    outside: Annotated[
        str, typer.Option(help="Points outside the domain: nan, or allow for no check in the file.")
    ] = "nan",
    dtype: Dtype = "float64",
    executor: Executor = None,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Export a polynomial's model, proven anew on loading, for use without exactformer.

    The file carries target, domain and the error bound that holds whatever the order in which a
    runtime adds. It cannot raise: points outside the domain return NaN. Arrays of --format
    numpy check nothing.
    """
    from exactformer.cli.support.descriptions import NAMES
    from exactformer.core.loading import family_of
    from exactformer.polynomials.check import load
    from exactformer.polynomials.export import FORMATS, about, write

    if format not in FORMATS:
        raise InputError(f"--format {format}: choose one of {', '.join(FORMATS)}")
    if outside not in _OUTSIDE:
        raise InputError(f"--outside {outside}: choose one of {', '.join(_OUTSIDE)}")
    if (family := family_of(file)) != "polynomials":
        raise InputError(
            f"a {NAMES[family]} model cannot be exported as {format}; {file} keeps it whole: "
            "exactformer predict runs it, and ef.load gives it as a torch module"
        )
    ending, contents_of = FORMATS[format]
    target = file.with_suffix(ending) if out is None else out
    if target.suffix.lower() != ending:
        raise InputError(f"{target}: write {ending} for --format {format}")
    check_free(force, target)
    with waiting("Prove and export", not as_json):
        model = load(
            file,
            dtype=torch_dtype(dtype),
            executor=executor,
            outside=outside,
            memory_limit=in_bytes(memory_limit),
        )
        contents = contents_of(model)
    write(contents, target)
    facts = about(model, model.executor)
    bound, size = float(facts["bound"]), len(contents)
    if as_json:
        print_json({**facts, "bound": bound, "format": format, "bytes": size}, target)
        return
    console().print(
        f"{target}: {shortened(facts['target'], 100)}\n"
        f"{format}, {facts['executor']}, {facts['dtype']}, {size:,} bytes; within {bound:.3g} of the "
        f"polynomial on {facts['domain']}."
    )
