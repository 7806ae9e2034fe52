"""``exactformer serve``: the studio, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.support.options import Json
from exactformer.cli.support.output import console, print_json
from exactformer.errors import needs

if TYPE_CHECKING:
    from exactformer.studio.settings import Settings
    from exactformer.studio.storage.engine import Database


def serve(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    database: str | None = None,
    single_user: bool = False,
    results: Annotated[Path | None, typer.Option(exists=True, file_okay=False)] = None,
    workers: Annotated[int, typer.Option(min=1, max=64)] = 1,
    playground_workers: Annotated[int, typer.Option(min=1, max=64)] = 2,
    secure_cookies: bool = False,
    behind_proxy: bool = False,
    as_json: Json = False,
) -> None:
    """Try the constructions in a browser, and read the papers with the evidence for each claim.

    The first start creates the database with the four papers and their references; data stays on
    this machine. --json prints the address once pages are served. Ctrl-C ends it, with exit code 0.

    Args:
        host: Address to listen on; 0.0.0.0 lets other machines in.
        port: Port to listen on; 0 takes a free one.
        database: The database: sqlite:///file.db or postgresql://user@host/name. Unless given, a file
            in the user's data folder.
        single_user: No accounts: everybody at this machine is the administrator.
        results: Folder with stored results, shown on paper pages; the shipped ones unless given.
        workers: Processes that serve pages; more than one needs PostgreSQL.
        playground_workers: Processes that compute for the playground.
        secure_cookies: Send cookies over https only; for use behind a https proxy.
        behind_proxy: Believe the proxy's headers about where requests come from; never without one.
    """
    with needs("studio", "the studio"):
        from exactformer.studio.serving import serve as serve_studio
        from exactformer.studio.settings import Settings

    given: dict[str, Any] = {"database": database, "results": results}
    settings = Settings(
        host=host,
        port=port,
        single_user=single_user,
        workers=workers,
        playground_workers=playground_workers,
        secure_cookies=secure_cookies,
        behind_proxy=behind_proxy,
        **{name: value for name, value in given.items() if value is not None},
    )
    serve_studio(settings, _print_address if as_json else _announce)
    console(stderr=True, quiet=as_json).print("Stopped.")


def _print_address(settings: Settings, database: Database, address: str) -> None:
    place = database.url.render_as_string(hide_password=True)
    print_json({"address": address, "database": place, "single_user": settings.single_user})


def _announce(settings: Settings, database: Database, address: str) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from exactformer.studio.accounts.service import is_administered

    with database.session() as db:
        administered = is_administered(db)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("Open", Text(address, style=f"bold link {address}"))
    facts.add_row("Data", database.url.render_as_string(hide_password=True))
    if settings.single_user:
        facts.add_row("Accounts", "none: everybody at this machine is the administrator")
    elif not administered:
        facts.add_row("Accounts", f"the first to register becomes admin: {address}/register")
    facts.add_row("Stop", "Ctrl-C")
    console().print(Panel.fit(facts, title="exactformer studio", padding=(1, 2)))
