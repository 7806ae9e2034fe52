"""``exactformer report``: every experiment on one page."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        Path, typer.Option(help="Folder with the stored results.", file_okay=False)
    ] = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write; report.html in --results unless given."),
    ] = None,
) -> None:
    """Write one self-contained HTML page: claims, the papers' figures, ours, and verdicts."""
    from exactformer.experiments import write_report

    typer.echo(write_report(results, out))
