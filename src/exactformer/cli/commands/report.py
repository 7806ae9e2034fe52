"""``exactformer report``: every experiment on one page."""

from pathlib import Path
from typing import Annotated

import typer

from exactformer.cli.support.options import Json
from exactformer.cli.support.output import print_json


def report(
    results: Annotated[
        Path, typer.Option(help="Folder with the stored results.", file_okay=False)
    ] = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write; report.html in --results unless given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page: claims, the papers' figures, ours, and verdicts."""
    from exactformer.experiments import write_report

    page = write_report(results, out)
    if as_json:
        print_json({"saved": str(page)})
    else:
        typer.echo(page)
