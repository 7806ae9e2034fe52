"""``exactformer reproduce``: a table or figure of a paper, by name."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.errors import DriftError, ExactformerError, InputError
from exactformer.experiments.engine.experiment import Scale

if TYPE_CHECKING:
    from exactformer.experiments import Result


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="The experiment, as --list shows it.", show_default=False)
    ] = None,
    scale: Annotated[
        Scale, typer.Option(help="Seconds in CI, minutes on a laptop, or the paper's own sizes.")
    ] = Scale.DEFAULT,
    device: Annotated[str, typer.Option(help="cpu, or cuda for one queue on the GPU.")] = "cpu",
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes to run cells in; every core unless given.", min=1),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the result and its cells. Unless given, results go to results/ "
            "(scale paper) or results/SCALE/, cells to the user's cache.",
            file_okay=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Run anew and fail where the stored result disagrees; write nothing."
        ),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run a table or figure of a paper again and compare it with print.

    Finished cells are kept: stop the run at any moment, and the same command goes on from there.
    Leaves with 1 if --check finds drift or, at smoke scale, the claim's direction does not hold.
    """
    from rich.console import Console

    from exactformer.experiments import names
    from exactformer.experiments.engine.reproduce import results_folder

    if listing:
        _list(as_json)
        return
    if everything == (name is not None):
        raise InputError("Give the name of one experiment, or --all, or --list to see them.")
    errors: list[ExactformerError] = []
    results: list[Result] = []
    folder = out or results_folder(scale)
    for one in names() if everything else [str(name)]:
        try:
            result = _run(one, scale, device, jobs, cluster, out, check)
        except ExactformerError as error:
            if not everything and not isinstance(error, DriftError):
                raise
            Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
            errors.append(error)
        else:
            results.append(result)
            if not as_json:
                _show(result)
                typer.echo("No drift." if check else f"Written to {folder / one}.json")
    if as_json:
        contents = [result.to_dict() for result in results]
        typer.echo(json.dumps(contents if everything else contents[0] if contents else None))
    raise typer.Exit(_exit_code(errors, results))


def _run(
    name: str,
    scale: Scale,
    device: str,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    check: bool,
) -> "Result":
    from exactformer.experiments import reproduce
    from exactformer.experiments.engine.reproduce import results_folder

    try:
        result = reproduce(name, scale, device, jobs, cluster, out, check)
    except KeyboardInterrupt as stop:
        for note in getattr(stop, "__notes__", []):
            typer.echo(f"\n{note}", err=True)
        raise typer.Exit(130) from None
    if out is None and not check:
        result.save(results_folder(scale))
    return result


def _exit_code(errors: list[ExactformerError], results: "list[Result]") -> int:
    if any(not isinstance(error, DriftError) for error in errors):
        return 2
    broken = any(result.scale is Scale.SMOKE and result.broken for result in results)
    return 1 if errors or broken else 0


def _list(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from exactformer.experiments import find, names

    experiments = [find(name) for name in names()]
    if as_json:
        fields = ("name", "title", "claim", "source")
        typer.echo(json.dumps([{f: getattr(e, f) for f in fields} for e in experiments]))
        return
    table = Table("Name", "What it shows", "Source", box=None)
    for experiment in experiments:
        table.add_row(experiment.name, experiment.title, experiment.source)
    Console().print(table)


def _show(result: "Result") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from exactformer.progress import duration

    console = Console(highlight=False)
    experiment, origin = result.experiment, result.provenance
    console.print(Text(f"{experiment.title} ({experiment.source})", style="bold"))
    table = Table("Quantity", box=None)
    for head in ("Paper", "Ours", "Spread", "Seeds", "Ratio"):
        table.add_column(head, justify="right")
    table.add_column("Verdict")
    for row in result.summary.rows:
        numbers = [row.printed, row.mean, row.spread, len(row.values), row.ratio]
        cells = ["–" if number is None else f"{number:.3g}" for number in numbers]
        verdict = "" if row.printed is None else f"{row.verdict}. {row.why}"
        table.add_row(Text(row.label), *cells, Text(verdict))
    console.print(table)
    for text, holds in result.statements.items():
        console.print(Text(f"{'✓' if holds else '✗'} {text}", style="green" if holds else "red"))
    console.print(Text(f"{result.verdict}: {result.why}", style="bold"))
    console.print(Text(f"{origin.cells} cells, {duration(origin.seconds)} on {origin.device}"))
