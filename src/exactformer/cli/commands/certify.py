"""``exactformer certify``: prove a saved model from scratch."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from exactformer.cli.support.options import Json, MemoryLimit, ModelFile, in_bytes, names
from exactformer.cli.support.output import console, print_json
from exactformer.errors import InputError
from exactformer.progress import waiting


def certify(
    file: ModelFile,
    expression: Annotated[str | None, typer.Argument(metavar="[EXPR]")] = None,
    variables: str | None = None,
    vocabulary: str | None = None,
    max_length: int | None = None,
    causal: Annotated[bool | None, typer.Option("--causal/--everywhere")] = None,
    memory_limit: MemoryLimit = 4,
    as_json: Json = False,
) -> None:
    """Prove from scratch what a saved model computes: a polynomial, a map, a program or a coupling.

    Nothing in the file of a polynomial or a sequence map is believed: if one weight is off by anything
    at all, this leaves with 1 and names it. Nor is anything in that of a program, which is proven for
    every input from its weights. The file of a coupling holds no functions: its
    bound is checked against the weights, and remains numerical and stated by the file.

    Args:
        expression: The polynomial that the model must compute, or the program, by its name or written
            out; what its file names if absent.
        variables: Variables of EXPR in order, separated by commas; the model's if absent.
        vocabulary: Of a program: the tokens that the model must take.
        max_length: Of a program: the most tokens that inputs must have.
        causal: Of a program: what positions must attend to.
    """
    from exactformer.cli.support.families import name_of, read_blueprint
    from exactformer.cli.support.panels import certificate_panel
    from exactformer.core.certificate import Kind
    from exactformer.core.loading import certify as prove
    from exactformer.core.loading import family_of

    family = family_of(file)
    options: dict[str, Any] = {"memory_limit": in_bytes(memory_limit)}
    target: Any = None if expression is None else expression.strip()
    inputs = {"vocabulary": vocabulary, "max_length": max_length, "causal": causal}
    given = {name: value for name, value in inputs.items() if value is not None}
    if given and family != "programs":
        raise InputError(
            f"{file} holds a {name_of(family)} model; --vocabulary, --max-length, --causal and "
            "--everywhere are about programs"
        )
    if family == "polynomials":
        options["variables"] = names(variables)
    elif family == "programs" and variables is None:
        from exactformer.programs.library import program_of
        from exactformer.programs.token_text import read_vocabulary

        target = None if target is None else program_of(target)
        options |= given
        if vocabulary is not None:
            options["vocabulary"] = read_vocabulary(vocabulary)
    elif expression is not None or variables is not None:
        raise InputError(
            f"{file} holds a {name_of(family)} model, which is not compared with an expression; leave "
            "EXPR and --variables out"
        )
    with waiting("Prove", not as_json):
        certificate = prove(file, target, **options)
    if as_json:
        print_json({"file": str(file), "certificate": certificate.to_dict()})
        return
    proven = certificate.kind is Kind.PROVEN
    title = f"{file.name} is certified" if proven else f"{file.name}: {certificate.kind}"
    console().print(certificate_panel(certificate, read_blueprint(file).rows(), title=title))
