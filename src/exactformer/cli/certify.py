"""``exactformer certify``: prove a saved model from scratch."""

from __future__ import annotations

from typing import Annotated

import typer

from exactformer.cli.options import Json, ModelFile, names
from exactformer.cli.output import console, print_json


def certify(
    file: ModelFile,
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPR]",
            help="What it must compute; the polynomial its file names if absent.",
            show_default=False,
        ),
    ] = None,
    variables: Annotated[
        str | None, typer.Option(help="Order of EXPR's variables, with commas; the model's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove from scratch that a saved model computes a polynomial on its domain.

    Nothing in the file is believed: selection, identity and rounding are proven again. If one weight
    is off by anything at all, this fails and names it.
    """
    from exactformer.cli.panels import certificate_panel
    from exactformer.polynomials.check import certify as certify_model

    target = None if expression is None else expression.strip()
    certificate = certify_model(file, target, variables=names(variables))
    if as_json:
        print_json({"file": str(file), "certificate": certificate.to_dict()})
    else:
        console().print(certificate_panel(certificate, title=f"{file.name} is certified"))
