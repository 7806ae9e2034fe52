"""``exactformer report``: every experiment on one page."""

from pathlib import Path
from typing import Annotated

import typer

from exactformer.cli.support.options import Force, Json, check_free, out_file
from exactformer.cli.support.output import print_json


def report(
    results: Annotated[Path, typer.Option(file_okay=False)] = Path("results"),
    out: Annotated[Path | None, out_file()] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page: claims, the papers' figures, ours, and verdicts.

    Args:
        results: Folder with the stored results.
        out: Where to write; report.html in --results unless given.
    """
    from exactformer.experiments import write_report

    check_free(force, out or results / "report.html")
    page = write_report(results, out)
    if as_json:
        print_json({}, page)
    else:
        typer.echo(page)
