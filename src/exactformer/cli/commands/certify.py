"""``exactformer certify``: prove a saved model from scratch."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from exactformer.cli.support.options import Json, ModelFile, names
from exactformer.cli.support.output import console, print_json
from exactformer.errors import InputError


def certify(
    file: ModelFile,
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPR]",
            help="The polynomial that the model must compute, or the program by its name; what its "
            "file names if absent.",
        ),
    ] = None,
    variables: Annotated[
        str | None,
        typer.Option(
            help="Variables of EXPR in order, separated by commas; the model's if absent."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove from scratch what a saved model computes: a polynomial, a map, a program or a coupling.

    Nothing in the file of a polynomial or a sequence map is believed: if one weight is off by anything
    at all, this leaves with 1 and names it. Nor is anything in that of a program, which is proven for
    every input from its weights. The file of a coupling holds no functions: its
    bound is checked against the weights, and remains numerical and stated by the file.
    """
    from exactformer.cli.support.descriptions import NAMES, read_blueprint
    from exactformer.cli.support.panels import certificate_panel
    from exactformer.core.certificate import Kind
    from exactformer.core.loading import certify as prove
    from exactformer.core.loading import family_of

    family = family_of(file)
    options: dict[str, Any] = {}
    wanted: Any = None
    if family == "polynomials":
        options["variables"] = names(variables)
    elif family == "programs" and variables is None:
        from exactformer.programs.library import program_named

        wanted = None if expression is None else program_named(expression.strip())
    elif expression is not None or variables is not None:
        raise InputError(
            f"{file} holds a {NAMES[family]} model, which is not compared with an expression; leave "
            "EXPR and --variables out"
        )
    target: Any = None if expression is None else expression.strip()
    if family == "programs":
        target = wanted
    certificate = prove(file, target, **options)
    if as_json:
        print_json({"file": str(file), "certificate": certificate.to_dict()})
        return
    proven = certificate.kind is Kind.PROVEN
    title = f"{file.name} is certified" if proven else f"{file.name}: {certificate.kind}"
    console().print(certificate_panel(certificate, read_blueprint(file), title=title))
