"""``exactformer export``: a saved model in other people's formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
from exactformer.core.words import at_most
from exactformer.errors import InputError
from exactformer.progress import waiting

_OUTSIDE = ("nan", "allow")


def export(
    file: ModelFile,
    format: str = "onnx",
    out: Annotated[Path | None, out_file()] = None,
    force: Force = False,
    outside: str = "nan",
    dtype: Dtype = "float64",
    executor: Executor = None,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Export a model, proven anew on loading, for use without exactformer: a polynomial or a program.

    The file carries target, inputs and the error bound that holds whatever the order in which a
    runtime adds. It cannot raise: points outside the domain return NaN. Arrays of --format
    numpy check nothing. Programs are exported as ONNX.

    Args:
        format: onnx, numpy (.npz) or torch (.pt2 of torch.export).
        out: Write here; next to the model if absent.
        outside: Points outside the domain: nan, or allow for no check in the file.
    """
    from exactformer.core.loading import family_of, load
    from exactformer.core.whole_files import write_bytes
    from exactformer.polynomials.export import FORMATS, about

    if format not in FORMATS:
        raise InputError(f"--format {format}: choose one of {', '.join(FORMATS)}")
    if outside not in _OUTSIDE:
        raise InputError(f"--outside {outside}: choose one of {', '.join(_OUTSIDE)}")
    family = family_of(file)
    _check_offered(file, family, format, outside)
    ending, write = FORMATS[format]
    target = file.with_suffix(ending) if out is None else out
    if target.suffix.lower() != ending:
        raise InputError(f"{target}: write {ending} for --format {format}")
    check_free(force, target)
    with waiting("Prove and export", not as_json):
        model: Any = load(
            file,
            dtype=torch_dtype(dtype),
            executor=executor,
            outside=outside,
            memory_limit=in_bytes(memory_limit),
        )
        if family == "programs":
            from exactformer.programs import onnx

            contents, facts = onnx.onnx_file(model), onnx.about(model)
            within = f"the program's outputs on 1 to {facts['max_length']} tokens"
        else:
            contents, facts = write(model), about(model, model.executor)
            within = f"the polynomial on {facts['domain']}"
    write_bytes(contents, target)
    bound, size = float(facts["bound"]), len(contents)
    if as_json:
        print_json({**facts, "bound": bound, "format": format, "bytes": size}, target)
        return
    console().print(
        f"{target}: {shortened(facts['target'], 100)}\n"
        f"{format}, {facts['executor']}, {facts['dtype']}, {size:,} bytes; within {at_most(bound)} of "
        f"{within}."
    )


def _check_offered(file: Path, family: str, format: str, outside: str) -> None:
    from exactformer.cli.support.families import name_of

    if family == "programs" and outside != "nan":
        raise InputError(f"--outside {outside}: a program has no value outside its vocabulary")
    if family != "polynomials" and (family, format) != ("programs", "onnx"):
        raise InputError(
            f"a {name_of(family)} model cannot be exported as {format}; {file} keeps it whole: "
            "exactformer predict runs it, and ef.load gives it as a torch module"
        )
