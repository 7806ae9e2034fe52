"""``exactformer serve``: the studio, in a browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.cli.support.output import console
from exactformer.errors import InputError

if TYPE_CHECKING:
    from fastapi import FastAPI


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    database: Annotated[
        str | None,
        typer.Option(
            help="Where data is kept: sqlite:///file.db or postgresql://user@host/name. Unless "
            "given, a file in the folder this system has for the data of programs.",
            show_default=False,
        ),
    ] = None,
    single_user: Annotated[
        bool,
        typer.Option(
            "--single-user", help="A desk of one: no accounts, whoever sits here is the admin."
        ),
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder with stored runs, the evidence on paper pages; those shipped, unless given.",
            exists=True,
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes that compute for the playground.", min=1, max=64)
    ] = 2,
    secure_cookies: Annotated[
        bool,
        typer.Option(
            "--secure-cookies", help="Send cookies over https alone: behind a proxy that speaks it."
        ),
    ] = False,
) -> None:
    """Try the constructions in a browser, and read the papers with evidence beside each claim.

    The first start creates the database and puts in the four papers with their references; data
    stays on this machine. Ctrl-C ends it.
    """
    try:
        from exactformer.studio.serving import serve as serve_studio
        from exactformer.studio.settings import Settings
    except ModuleNotFoundError as missing:
        raise InputError(
            f'the studio needs {missing.name}: pip install "exactformer[studio]"'
        ) from None

    settings = Settings(
        host=host,
        port=port,
        single_user=single_user,
        workers=workers,
        secure_cookies=secure_cookies,
    )
    if database is not None:
        settings = replace(settings, database=database)
    if results is not None:
        settings = replace(settings, results=results)
    serve_studio(settings, _announce)
    console(stderr=True).print("Stopped.")


def _announce(app: FastAPI, address: str) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from exactformer.studio.services.accounts import is_administered

    settings, database = app.state.settings, app.state.database
    with database.session() as db:
        administered = is_administered(db)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("Open", Text(address, style=f"bold link {address}"))
    facts.add_row("Data", database.url.render_as_string(hide_password=True))
    if settings.single_user:
        facts.add_row("Accounts", "none: whoever sits here is the admin")
    elif not administered:
        facts.add_row("Accounts", f"the first to register becomes admin: {address}/register")
    facts.add_row("Stop", "Ctrl-C")
    console().print(Panel.fit(facts, title="exactformer studio", padding=(1, 2)))
