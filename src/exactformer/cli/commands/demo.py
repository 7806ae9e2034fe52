"""``exactformer demo``: the paper's own example, from text to proof, in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.cli.support.options import Force, Json, check_free
from exactformer.cli.support.output import console, empty_table, print_json
from exactformer.core.words import at_most
from exactformer.errors import CertificationError, ExecutionError
from exactformer.progress import waiting

if TYPE_CHECKING:
    from rich.console import Console

LAW = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
_VARIABLES = [f"x{i}" for i in range(1, 11)]
_RADIUS = 4
_WORDS = {"literal": "every matrix carried out", "fused": "its proven closed form"}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o")] = Path("demo"),
    force: Force = False,
    points: Annotated[int, typer.Option(min=1)] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Compile f₂* of Fang et al. (2022), prove it, try it on a million points, and draw it.

    Writes law.safetensors, demo.png and demo.svg.

    Args:
        out: Folder for the model and the figure.
        points: How many random points to evaluate.
    """
    from time import perf_counter

    from exactformer.algebra import Polynomial
    from exactformer.cli.support.evaluation import REFERENCE_DIGITS, compare, observed_errors
    from exactformer.cli.support.panels import certificate_panel
    from exactformer.figures import accuracy_figure, save_figure
    from exactformer.polynomials.compile import compile

    begin = perf_counter()
    screen = console(quiet=as_json)
    file, figures = out / "law.safetensors", [out / "demo.png", out / "demo.svg"]
    check_free(force, file, *figures)
    _check_folder(out)

    _step(screen, 1, f"Compile f₂* of Fang et al. (2022), d = 10, on ‖x‖ ≤ {_RADIUS}")
    polynomial = Polynomial.parse(LAW, _VARIABLES)
    with waiting("Compile and prove", not as_json):
        model = compile(polynomial, _RADIUS)
    screen.print(certificate_panel(model.certificate, model.rows()))

    _step(screen, 2, f"Evaluate transformer and polynomial at {points:,} random points of the ball")
    errors = observed_errors(model, polynomial, points)
    observed = compare(model, errors)
    _show_errors(screen, observed, REFERENCE_DIGITS)

    _step(screen, 3, "Save it, prove the file from scratch, then alter one weight by a millionth")
    out.mkdir(parents=True, exist_ok=True)
    model.save(file)
    with waiting("Prove both files", not as_json):
        refusal = _prove_and_tamper(file)
    _check_off(screen, f"{file} is certified")
    _check_off(screen, f"the altered copy is refused: {refusal}")

    _step(screen, 4, "Draw it")
    figure = accuracy_figure(model, polynomial, errors, f"${polynomial.latex()}$, as a transformer")
    with waiting("Draw", not as_json):
        for path in figures:
            save_figure(figure, path)
    _check_off(screen, f"{figures[0]} and {figures[1]}")
    seconds = perf_counter() - begin
    _suggest(screen, file, seconds)
    if as_json:
        print_json(
            {
                **model.facts(),
                "certificate": model.certificate.to_dict(),
                "points": points,
                "observed": observed,
                "reference_digits": REFERENCE_DIGITS,
                "altered_copy_refused": refusal,
                "seconds": round(seconds, 3),
            },
            file,
            *figures,
        )


def _check_folder(out: Path) -> None:
    """Raise if the folder cannot be made; work that is broken off leaves none behind."""
    if not out.is_dir():
        out.mkdir(parents=True)
        out.rmdir()


def _prove_and_tamper(file: Path) -> str:
    """Certify the file; then show that a copy with one weight changed, seals renewed, is refused."""
    from dataclasses import replace
    from fractions import Fraction
    from tempfile import TemporaryDirectory

    from exactformer.core.matrix import Matrix
    from exactformer.polynomials.check import certify
    from exactformer.polynomials.files import load_blueprint, save_blueprint

    certify(file, LAW)
    blueprint = load_blueprint(file)
    beta = blueprint.readouts[0].beta
    place = min(beta.entries)
    entries = {**beta.entries, place: beta[place] * (1 + Fraction(1, 10**6))}
    altered = replace(blueprint.readouts[0], beta=Matrix.of(beta.rows, beta.columns, entries))
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "altered.safetensors"
        save_blueprint(replace(blueprint, readouts=(altered,)), copy)
        try:
            certify(copy, LAW)
        except CertificationError as error:
            return str(error)
    raise ExecutionError("an altered model passed certification; please report this")


def _step(screen: Console, number: int, text: str) -> None:
    from rich.text import Text

    screen.print(Text.assemble("\n", (str(number), "bold cyan"), "  ", (text, "bold")))


def _check_off(screen: Console, text: str) -> None:
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1))
    line.add_row("  ", Text("✓", style="green"), Text(text))
    screen.print(line)


def _show_errors(
    screen: Console, observed: dict[str, dict[str, float | None]], digits: int
) -> None:
    table = empty_table("   ", "largest error", "certified bound", "ratio", right=1)
    for executor, numbers in observed.items():
        largest, bound, ratio = (numbers[k] for k in ("largest_error", "bound", "ratio"))
        shown = "–" if ratio is None else f"{ratio:.0f}"
        table.add_row(f"   {_WORDS[executor]}", f"{largest:.3g}", at_most(bound or 0.0), shown)
    screen.print(table)
    screen.print(
        f"   measured against the polynomial in {digits}-digit arithmetic"
        if digits > 15
        else "   This platform has no extended precision: the reference rounds as the model does.",
        style="dim",
    )


def _suggest(screen: Console, file: Path, seconds: float) -> None:
    screen.print(f"\nDone in {seconds:.0f} s. Next:")
    for command in (
        f"exactformer inspect {file}",
        f'exactformer certify {file} "{LAW}"',
        'exactformer compile "x^2 + y^2" --radius 2 -o circle.safetensors',
    ):
        screen.print(f"  {command}", style="cyan", soft_wrap=True)
