"""``exactformer demo``: the paper's own example, from text to proof, in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.options import Json
from exactformer.cli.output import console, print_json
from exactformer.errors import ExecutionError, RoundingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from exactformer.algebra import Polynomial
    from exactformer.model import CompiledModel

LAW = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
VARIABLES = [f"x{i}" for i in range(1, 11)]
RADIUS = 4
_BATCH = 4096


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the model and the figure.")
    ] = Path("demo"),
    points: Annotated[
        int, typer.Option(help="How many random points to evaluate.", min=1)
    ] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Compile f₂* of Fang et al. (2022), prove it, try it on a million points, and draw it.

    Writes law.safetensors, demo.png and demo.svg.
    """
    from time import perf_counter

    from exactformer.algebra import Polynomial
    from exactformer.cli.panels import certificate_panel, model_facts
    from exactformer.figures import accuracy_figure, save_figure
    from exactformer.model import compile

    begin = perf_counter()
    screen = None if as_json else console()
    out.mkdir(parents=True, exist_ok=True)
    file, stem = out / "law.safetensors", out / "demo"

    polynomial = Polynomial.parse(LAW, VARIABLES)
    _say(screen, "1", f"Compile f₂* of Fang et al. (2022), d = 10, on ‖x‖ ≤ {RADIUS}")
    model = compile(polynomial, RADIUS)
    if screen is not None:
        screen.print(certificate_panel(model.certificate, model.blueprint))

    _say(
        screen, "2", f"Evaluate transformer and polynomial at {points:,} random points of the ball"
    )
    errors = _errors(model, polynomial, points)
    observed = _observed(model, errors)
    if not observed["within_bound"]:
        raise RoundingError(
            f"an error of {observed['largest_error']!r} exceeds the certified bound"
        )
    _report(screen, observed)

    _say(screen, "3", "Save it, prove the file from scratch, then alter one weight by a millionth")
    model.save(file)
    caught = _prove_and_tamper(file)
    if screen is not None:
        screen.print(f"  [green]✓[/green] {file} is certified")
        screen.print(f"  [green]✓[/green] the altered copy is refused: [dim]{caught}[/dim]")

    figure = accuracy_figure(model, polynomial, errors, f"${polynomial.latex()}$, as a transformer")
    figures = [stem.with_suffix(kind) for kind in (".png", ".svg")]
    for path in figures:
        save_figure(figure, path)
    _say(screen, "4", f"Drawn in {figures[0]} and {figures[1]}")
    seconds = perf_counter() - begin
    if screen is not None:
        _suggest(screen, file, seconds)
        return
    print_json(
        {
            **model_facts(model.blueprint),
            "certificate": model.certificate.to_dict(),
            **observed,
            "altered_copy_refused": caught,
            "saved": str(file),
            "figures": [str(path) for path in figures],
            "seconds": round(seconds, 3),
        }
    )


def _errors(model: CompiledModel, polynomial: Polynomial, count: int) -> NDArray[np.float64]:
    """Return |transformer − polynomial|, the polynomial in extended precision."""
    import numpy as np

    from exactformer.cli.evaluating import in_order, values
    from exactformer.cli.progress import progress
    from exactformer.figures.sampling import points_in_ball

    def one(batch: int) -> NDArray[np.float64]:
        size = min(_BATCH, count - batch * _BATCH)
        points = points_in_ball(size, polynomial.dimension, RADIUS, seed=batch)
        exact = polynomial.evaluate(points.astype(np.longdouble))
        return np.asarray(np.abs(values(model, points) - exact), dtype=np.float64)

    errors, done = [], 0
    batches = range(-(-count // _BATCH))
    with progress("points", count, patience=0.5) as advance:
        for _, piece in in_order(one, batches):
            errors.append(piece)
            done += len(piece)
            advance(done)
    return np.concatenate(errors)


def _observed(model: CompiledModel, errors: NDArray[np.float64]) -> dict[str, Any]:
    import numpy as np

    largest, bound = float(errors.max()), model.certificate.bound(model.dtype)
    return {
        "points": len(errors),
        "largest_error": largest,
        "bound": bound,
        "bound_over_largest_error": bound / largest if largest else None,
        "within_bound": largest <= bound,
        "reference_digits": int(np.finfo(np.longdouble).precision),
    }


def _report(screen: Console | None, observed: dict[str, Any]) -> None:
    if screen is None:
        return
    largest, bound = observed["largest_error"], observed["bound"]
    ratio = observed["bound_over_largest_error"]
    screen.print(f"  [green]✓[/green] largest error seen   {largest:.3g}")
    screen.print(
        f"    certified bound      {bound:.3g}" + (f"   {ratio:.0f} times as much" if ratio else "")
    )
    digits = observed["reference_digits"]
    if digits <= 15:
        screen.print(
            "    This platform has no extended precision: the reference rounds as the model does."
        )
    else:
        screen.print(f"    [dim]reference: the polynomial itself with {digits} digits[/dim]")


def _prove_and_tamper(file: Path) -> str:
    """Certify the file; then show that a copy with one weight changed, seals renewed, is refused."""
    from dataclasses import replace
    from fractions import Fraction
    from tempfile import TemporaryDirectory

    from exactformer.blueprint import Matrix
    from exactformer.blueprint.storing import load_blueprint, save_blueprint
    from exactformer.errors import CertificationError
    from exactformer.model import certify

    certify(file, LAW)
    blueprint = load_blueprint(file)
    beta = blueprint.readout.beta
    place = min(beta.entries)
    entries = {**beta.entries, place: beta[place] * (1 + Fraction(1, 10**6))}
    altered = replace(blueprint.readout, beta=Matrix.of(beta.rows, beta.columns, entries))
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "altered.safetensors"
        save_blueprint(replace(blueprint, readout=altered), copy)
        try:
            certify(copy, LAW)
        except CertificationError as error:
            return str(error)
    raise ExecutionError("an altered model passed certification; please report this")


def _say(screen: Console | None, number: str, text: str) -> None:
    if screen is not None:
        screen.print(f"\n[bold cyan]{number}[/bold cyan]  [bold]{text}[/bold]")


def _suggest(screen: Console, file: Path, seconds: float) -> None:
    screen.print(f"\nDone in {seconds:.0f} s. Next:")
    for command in (
        f"exactformer inspect {file} --plot {file.with_name('inside.png')}",
        f'exactformer certify {file} "{LAW}"',
        'exactformer compile "x^2 + y^2" --radius 2 -o circle.safetensors',
    ):
        screen.print(f"  {command}", style="cyan", markup=False, soft_wrap=True)
