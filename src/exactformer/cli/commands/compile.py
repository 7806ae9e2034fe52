"""``exactformer compile``: a polynomial into a certified transformer."""

from __future__ import annotations

from typing import Annotated

import typer

from exactformer.cli.support.options import (
    Dtype,
    Executor,
    Force,
    Json,
    MemoryLimit,
    ModelOut,
    exact_text,
    in_bytes,
    intervals,
    names,
    torch_dtype,
)
from exactformer.cli.support.output import console, print_json
from exactformer.errors import InputError
from exactformer.progress import waiting


def compile(
    expression: Annotated[str, typer.Argument(metavar="EXPR")],
    radius: Annotated[str | None, typer.Option("--radius", "-r")] = None,
    domain: str | None = None,
    out: ModelOut = None,
    force: Force = False,
    variables: str | None = None,
    construction: str = "scaled",
    directions: str = "auto",
    dtype: Dtype = "float64",
    executor: Executor = None,
    tolerance: float | None = None,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Compile a polynomial into a transformer that equals it on a ball or box, and prove it.

    The certificate holds for the saved file in every number format it lists; --dtype and --executor
    name the one that must have a guarantee. Leaves with 1, and saves nothing, where something
    cannot be proven.

    Args:
        expression: The polynomial, e.g. 'x^2 + 3 x y', in plain text or LaTeX; several, between
            semicolons, for a vector. Functions such as sin are for ef.compile in Python.
        radius: Certify the ball ‖x‖ ≤ R: 4, 0.1, 1/3; 1 if absent.
        domain: Certify a box instead, one interval per variable: '0,1; -1/2,3'.
        variables: Coordinates in order, separated by commas; may name unused ones. Declares names such
            as xy, which are refused otherwise.
        construction: scaled, doubling (fewer blocks, more heads), chebyshev (high degree), softmax
            (ordinary attention, near the target), or paper for Theorem 3.5 as printed.
        directions: auto, lattice, spread or tailored.
        tolerance: Refuse a larger certified error; softmax then uses as many heads as it takes.
    """
    from exactformer.cli.support.panels import certificate_panel
    from exactformer.polynomials.compile import compile as compile_model

    if radius is not None and domain is not None:
        raise InputError("give --radius for a ball or --domain for a box, not both")
    with waiting("Compile and prove", not as_json):
        model = compile_model(
            expression.strip(),
            None if radius is None else exact_text(radius, "radius"),
            domain=intervals(domain),
            variables=names(variables),
            construction=construction,
            directions=directions,
            dtype=torch_dtype(dtype),
            executor=executor,
            tolerance=tolerance,
            memory_limit=in_bytes(memory_limit),
        )
    if out is not None:
        model.save(out)
    if as_json:
        facts = model.facts()
        print_json({**facts, "certificate": model.certificate.to_dict()}, out)
    else:
        saved = "nowhere; -o FILE keeps it" if out is None else str(out)
        console().print(certificate_panel(model.certificate, model.rows(), saved=saved))
