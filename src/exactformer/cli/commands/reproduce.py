"""``exactformer reproduce``: a table or figure of a paper, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.cli.support.options import Force, Json, check_free
from exactformer.cli.support.output import console, empty_table, print_error, print_json
from exactformer.cli.support.usage import exit_code
from exactformer.errors import ExactformerError, InputError
from exactformer.experiments.engine.experiment import Scale

if TYPE_CHECKING:
    from exactformer.experiments import Result


def reproduce(
    name: Annotated[str | None, typer.Argument()] = None,
    scale: Scale = Scale.DEFAULT,
    device: str = "cpu",
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    cluster: str | None = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", file_okay=False)] = None,
    force: Force = False,
    check: bool = False,
    everything: Annotated[bool, typer.Option("--all")] = False,
    listing: Annotated[bool, typer.Option("--list")] = False,
    as_json: Json = False,
) -> None:
    """Run a table or figure of a paper again and compare it with the published values.

    Finished cells are kept: stop the run at any moment, and the same command continues from there.
    Leaves with 1 if a statement does not hold or --check finds drift.

    Args:
        name: The experiment, as --list shows it.
        scale: Seconds in CI, minutes on a laptop, or in full.
        device: cpu, or cuda.
        jobs: Processes to run cells in; unless given every core, or one on a GPU.
        cluster: Address of a Dask scheduler, such as tcp://host:8786.
        out: Folder for the result and its cells. Unless given, results go to results/ (scale full) or
            results/SCALE/, cells to the user's cache.
        check: Run anew and fail where the stored result disagrees; write nothing.
        everything: Run every experiment.
        listing: List the experiments and stop.
    """
    from exactformer.experiments import names
    from exactformer.experiments import reproduce as run
    from exactformer.experiments.engine.cell import restore
    from exactformer.experiments.engine.reproduce import results_folder

    if listing:
        _list(as_json)
        return
    if everything == (name is not None):
        raise InputError("Give the name of one experiment, or --all, or --list to see them.")
    folder, chosen = out or results_folder(scale), names() if everything else [str(name)]
    if not check:
        check_free(force, *(path for one in chosen for path in _files(folder, one)))
    results: list[Result] = []
    errors: dict[str, ExactformerError] = {}
    for one in chosen:
        try:
            result = run(one, scale, device, jobs, cluster, out, check)
            if out is None and not check:
                result.save(folder)
        except ExactformerError as error:
            if not everything:
                raise
            errors[one] = error
            if not as_json:
                print_error(type(error).__name__, str(error), as_json)
            continue
        results.append(result)
        if not as_json:
            _show(result)
            typer.echo("No drift." if check else f"Saved {folder / one}.json")
    if as_json:
        saved = [] if check else [p for r in results for p in _files(folder, r.experiment.name)]
        contents = [restore(result.to_dict()) for result in results]
        failed = [
            {"experiment": one, "error": type(error).__name__, "message": str(error)}
            for one, error in errors.items()
        ]
        everywhere = {"results": contents, "errors": failed}
        print_json(everywhere if everything else contents[0], *saved)
    missed = any(result.broken for result in results)
    raise typer.Exit(max([int(missed), *map(exit_code, errors.values())]))


def _files(folder: Path, name: str) -> list[Path]:
    """Return what :meth:`Result.save` writes."""
    return [folder / f"{name}.{ending}" for ending in ("json", "png", "svg")]


def _list(as_json: bool) -> None:
    from exactformer.experiments import find, names

    experiments = [find(name) for name in names()]
    if as_json:
        fields = ("name", "title", "claim", "source")
        print_json({"experiments": [{f: getattr(e, f) for f in fields} for e in experiments]})
        return
    table = empty_table("Name", "What it shows", "Source", ruled=False)
    for experiment in experiments:
        table.add_row(experiment.name, experiment.title, experiment.source)
    console().print(table)


def _show(result: Result) -> None:
    from rich.table import Table
    from rich.text import Text

    from exactformer.experiments.engine.presentation import present

    screen, shown = console(), present(result)
    screen.print(Text(f"{shown.title} ({shown.source})", style="bold"))
    for part in shown.parts:
        screen.print(Text(f"{part.title}: {part.count}", style="bold"))
        numbers = {part.reference, "Ours", "Seeds", "Ratio"}
        table = Table(box=None)
        for name in part.columns:
            table.add_column(name, justify="right" if name in numbers else "left")
        for line in part.lines:
            table.add_row(*(Text(line.column(name)) for name in part.columns))
        if part.lines:
            screen.print(table)
        for item in part.items:
            style = "green" if item.holds else "red"
            screen.print(Text(f"{item.mark} {item}", style=style))
    screen.print(Text(f"{shown.verdict}. {shown.why}", style="bold"))
    screen.print(Text(f"{shown.origin['cost']} on {shown.origin['device']}"))
