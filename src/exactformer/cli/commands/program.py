"""``exactformer program``: a RASP program into a certified transformer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.support.options import Dtype, Force, Json, ModelOut, Plot, torch_dtype
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import InputError

if TYPE_CHECKING:
    from exactformer.programs.language import SOp
    from exactformer.programs.model import ProgramModel


def program(
    name: Annotated[str | None, typer.Argument(metavar="PROGRAM")] = None,
    file: Path | None = None,
    vocabulary: str = "abc",
    max_length: int = 8,
    causal: bool = False,
    realisation: str = "hard",
    dtype: Dtype = "float64",
    at: str | None = None,
    out: ModelOut = None,
    plot: Plot = None,
    force: Force = False,
    as_list: Annotated[bool, typer.Option("--list")] = False,
    as_json: Json = False,
) -> None:
    """Compile a RASP program into a transformer and prove it for every input.

    The decoded output is the program's on every sequence up to the largest length. The table shows
    the value of every expression at every position of one input. --plot draws the circuit.

    Programs are read by a grammar and never run as code.

    Args:
        name: The program by its name (--list shows them all), or written out: length - indices.
        file: A file with the program: lines name = expression.
        vocabulary: The tokens: abc, or separated by commas: red,green or 0,1,2.
        max_length: The most tokens of an input.
        causal: Attend to earlier positions only.
        realisation: hard, exact, or softmax for PyTorch's own attention.
        at: The input to show: abca, or tokens with commas.
        as_list: List the programs by name.
    """
    from exactformer.programs.compile import compile_program
    from exactformer.programs.token_text import read_tokens, read_vocabulary

    if as_list:
        _show_programs(as_json)
        return
    name, expression = _given(name, file)
    model = compile_program(
        expression,
        vocabulary=read_vocabulary(vocabulary),
        max_length=max_length,
        causal=causal,
        realisation=realisation,
        dtype=torch_dtype(dtype),
    )
    tokens = _example(model) if at is None else read_tokens(at, model.vocabulary)
    output = model.decode([tokens])[0]
    if out is not None:
        model.save(out)
    if plot is not None:
        from exactformer.figures import circuit_figure, save_figure

        save_figure(circuit_figure(model), plot)
    if as_json:
        data = {
            "program": name,
            **model.facts(),
            "example": {"input": list(map(str, tokens)), "output": list(map(str, output))},
            "circuit": model.circuit().to_dict(),
            "certificate": model.certificate.to_dict(),
        }
        print_json(data, out, plot)
    else:
        _show(name, model, tokens, out)
        print_saved(plot)


def _given(name: str | None, file: Path | None) -> tuple[str, SOp]:
    """Return what a program is called, and the program."""
    from exactformer.cli.support.tokens import program_text
    from exactformer.programs.grammar import parse_program
    from exactformer.programs.library import program_of

    if name is not None and file is None:
        return name, program_of(name)
    if file is not None and name is None:
        return file.name, parse_program(program_text(file))
    raise InputError(
        "name one program, e.g. exactformer program reverse, or give one with --file; --list shows "
        "those that have names"
    )


def _example(model: ProgramModel) -> list[Any]:
    """Return a sequence that has every token, as far as the length allows, and some twice."""
    size = min(model.max_length, 8)
    return [model.vocabulary[(k * k) % len(model.vocabulary)] for k in range(size)]


def _show_programs(as_json: bool) -> None:
    from exactformer.programs.library import PROGRAMS

    stated = {name: (make.__doc__ or make().name).split("\n")[0] for name, make in PROGRAMS.items()}
    if as_json:
        print_json({"programs": [{"name": n, "statement": text} for n, text in stated.items()]})
        return
    table = empty_table("Program", "At every position")
    for name, text in stated.items():
        table.add_row(name, text)
    console().print(table)


def _show(name: str, model: ProgramModel, tokens: list[Any], out: Path | None) -> None:
    from exactformer.cli.support.panels import certificate_panel
    from exactformer.cli.support.tokens import shown

    screen = console()
    saved = "nowhere; -o FILE keeps it" if out is None else str(out)
    screen.print(certificate_panel(model.certificate, model.rows(), saved, {"program": name}))
    table = empty_table("Expression", *map(str, range(len(tokens))))
    for expression, values in model.expressions(tokens).items():
        table.add_row(expression, *map(shown, values))
    screen.print(table)
