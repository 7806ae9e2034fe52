"""The commands, gathered."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from exactformer import __version__
from exactformer.cli.commands.library import export as export_library
from exactformer.cli.support.usage import Command, DocumentedCommand, Group

app = typer.Typer(
    name="exactformer",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]exactformer demo[/bold]; every command explains itself with --help.",
)

# In the order of the help: a function in a module of its name, and the examples its help ends with.
COMMANDS = {
    "demo": ["demo", "demo -o tour --points 100000"],
    "compile": [
        'compile "x^2 + 3 x y" --radius 2 -o law.safetensors',
        'compile "0.1 a^3 - 2 (a + b)^2" --radius 1/2 --variables a,b,c --construction paper',
        'compile "x^4" --radius 10 --dtype float32 --json',
        'compile "x^2 + y^2; x y" --domain "0,1; -1/2,3" -o pair.safetensors',
        'compile "(x + y)^16" --construction chebyshev',
    ],
    "certify": ["certify law.safetensors", 'certify law.safetensors "x^2 + 3 x y"'],
    "verify": [
        "verify model.py:net --claim max --vocabulary 0..3 --length 3 -o verdict.json",
        "verify model.py:pruned --claim model.py:net --vocabulary 0..15 --length 6",
        "verify model.py:net --claim sort --vocabulary abc --length 1..5 --arithmetic real",
        "verify model.py:net --claim max --check verdict.json",
    ],
    "predict": [
        "predict law.safetensors points.csv -o values.csv",
        "predict law.safetensors points.npy -o values.npy --outside nan",
        'echo "0.5,-1" | exactformer predict law.safetensors',
    ],
    "inspect": [
        "inspect law.safetensors",
        "inspect law.safetensors --matrices",
        'inspect law.safetensors --at "0.5,-1"',
        "inspect reverse.safetensors --plot circuit.svg",
    ],
    "export": [
        "export law.safetensors",
        "export law.safetensors --format numpy -o law.npz",
        "export law.safetensors --format onnx --executor literal --dtype float32",
    ],
    "prove": [
        "prove law.safetensors -o law.v",
        "prove law.safetensors -o law.v --check",
        "prove law.safetensors -o law.v --library coq-library",
    ],
    "fit": [
        "fit measurements.csv --target y",
        "fit measurements.csv --target y --columns a,b -o law.safetensors",
        "fit measurements.csv --target y --degree 3 --json",
        "fit measurements.csv --target y --loss huber --features sin,exp --degree 2",
        "fit measurements.parquet --target y,z --missing drop --report law.html",
        "cat measurements.csv | exactformer fit - --target y",
    ],
    "sequence": [
        "sequence --list",
        "sequence sort --tokens 3 --dim 1 --delta 1/8 --plot journey.png",
        'sequence softmax-attention --form four-layer --delta 1/16 --at "0.1,0.7,0.4"',
        "sequence mean-subtract --tokens 2 --dim 2 --delta 1/4 --support -1,1 -o mean.safetensors",
    ],
    "program": [
        "program --list",
        "program reverse --vocabulary abc --max-length 10",
        "program sort --vocabulary 3,1,2 --max-length 6 --realisation softmax -o sort.safetensors",
        "program induction --vocabulary abc --max-length 12 --causal --at abcab --json",
    ],
    "spectrum": [
        "spectrum path/to/model --texts sentences.txt",
        "spectrum path/to/vit --images photos --heads --plot spectrum.svg",
        "spectrum path/to/model --npz inputs.npz --control shuffled -o spectrum.safetensors",
    ],
    "reproduce": ["reproduce --list", "reproduce fang-table-1", "reproduce --all --scale smoke"],
    "report": ["report", "report --results results -o page.html"],
    "serve": [
        "serve",
        "serve --single-user --port 9000",
        "serve --host 0.0.0.0 --database postgresql://studio@localhost/studio --secure-cookies",
    ],
}


def _epilog(lines: list[str]) -> str:
    shown = [line if "|" in line else f"exactformer {line}" for line in lines]
    return "\n\n".join(["[bold]Examples[/bold]", *(line.replace("[", r"\[") for line in shown)])


for _name, _lines in COMMANDS.items():
    _module = import_module(f"exactformer.cli.commands.{_name}")
    app.command(cls=Command, epilog=_epilog(_lines))(getattr(_module, _name))

# The studio's library has a command of its own: `exactformer library export`.
LIBRARY = [
    "library export -o library.json",
    "library export --format bibtex --paper vaswani-2017-attention-is-all-you-need",
]
library = typer.Typer(no_args_is_help=True, help="Take papers out of the studio's library.")
library.command("export", cls=DocumentedCommand, epilog=_epilog(LIBRARY))(export_library)
app.add_typer(library, name="library")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"exactformer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turn functions into transformers, and say with proof how far off they are."""


def run() -> None:
    """Run the application on what a terminal gives."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show ≤ shows ? instead of ending the program.
            stream.reconfigure(errors="replace")
    app()
