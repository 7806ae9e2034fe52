"""``exactformer library``: papers in and out of the studio's library, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.cli.support.output import console, shortened
from exactformer.errors import InputError
from exactformer.progress import progress

if TYPE_CHECKING:
    from rich.text import Text
    from sqlalchemy.orm import Session

    from exactformer.studio.database.engine import Database
    from exactformer.studio.services.importing import Item, Outcome
    from exactformer.studio.services.records import PaperRecord

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="The studio's data: sqlite:///file.db or postgresql://user@host/name. Unless given, "
        "what `exactformer serve` uses.",
        show_default=False,
    ),
]
_SHOWN = 60


class Form(StrEnum):
    """What a library is written as."""

    JSON = "json"
    BIBTEX = "bibtex"
    CSV = "csv"


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="BibTeX, CSL-JSON, arXiv Atom, OpenAlex JSON, or an export of a library.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    database: DatabaseOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
) -> None:
    """Read papers from files, show what would change, and write it once you agree.

    Papers that are there already are found by DOI, arXiv id, OpenAlex id and title; their gaps are
    filled, nothing is overwritten.
    """
    with _opened(database) as library:
        from exactformer.studio.actor import Actor
        from exactformer.studio.services import importing

        read = [(path, *_read(path)) for path in files]
        records = [record for _, _, some in read for record in some]
        with library.session() as db:
            items = importing.preview(db, records)
            _show(items)
        if not any(item.is_new or item.gains or item.citations for item in items):
            console().print("Nothing to write.")
            return
        if not yes and not typer.confirm("Write this?"):
            console().print("Nothing was written.")
            raise typer.Exit(1)
        formats = ", ".join(dict.fromkeys(format for _, format, _ in read))
        with library.writing() as db:
            _say(importing.write(db, Actor(None, "", "command line", "admin"), formats, records))


def export(
    form: Annotated[Form, typer.Option("--format", help="What to write.")] = Form.JSON,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="A file; standard output unless given.", dir_okay=False),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Only a collection, by the token in its link.")
    ] = None,
    paper: Annotated[str | None, typer.Option(help="Only one paper, by its slug.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Write the library, a collection or a paper as JSON, BibTeX or CSV.

    The JSON can be imported again without loss. In CSV a cell that begins with =, +, - or @ gets an
    apostrophe in front, so that no spreadsheet takes it for a formula.
    """
    if collection and paper:
        raise InputError("Give --collection or --paper, not both.")
    with _opened(database) as library, library.session() as db:
        pieces = _pieces(db, form, collection, paper)
        if out is None:
            for piece in pieces:
                typer.echo(piece, nl=False)
            return
        with (
            out.open("w", encoding="utf-8", newline="") as file,
            progress("Papers", None) as tell,
        ):
            for number, piece in enumerate(pieces):
                file.write(piece)
                tell(number)
        console(stderr=True).print(f"Written to {out}")


def _pieces(db: Session, form: Form, collection: str | None, paper: str | None) -> Iterator[str]:
    from sqlalchemy import select

    from exactformer.studio.database.tables import Collection
    from exactformer.studio.services import exporting, papers

    if collection is None and paper is None:
        yield from exporting.stream(db, form.value)
        return
    if paper is not None:
        chosen = [papers.get(db, paper)]
    else:
        found = db.scalar(select(Collection).where(Collection.token == collection))
        if found is None:
            raise InputError("No collection has this token; it is the last part of its link.")
        chosen = [item.paper for item in found.items]
    yield exporting.export(db, chosen, form.value)[0]


@contextmanager
def _opened(address: str | None) -> Iterator[Database]:
    try:
        from exactformer.studio.database import migrations
        from exactformer.studio.database.engine import Database
        from exactformer.studio.services import seeding
        from exactformer.studio.settings import default_database
    except ModuleNotFoundError as missing:
        raise InputError(
            f'the library needs {missing.name}: pip install "exactformer[studio]"'
        ) from None
    library = Database(address or default_database())
    try:
        migrations.upgrade(library)
        with library.writing() as db:
            seeding.seed(db)
        yield library
    finally:
        library.close()


def _read(path: Path) -> tuple[str, list[PaperRecord]]:
    from exactformer.studio.errors import StudioError
    from exactformer.studio.services import importing
    from exactformer.studio.services.importing.texts import MOST_BYTES

    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{path} has {size:,} bytes; the limit is {MOST_BYTES:,}.")
    try:
        return importing.read(path.read_bytes())
    except StudioError as refusal:
        raise InputError(f"{path}: {refusal}") from None


def _show(items: list[Item]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("#", "Paper", "Year", "What would happen", box=None)
    table.columns[0].justify = "right"
    for item in items[:_SHOWN]:
        what = _happens(item)
        table.add_row(
            str(item.number),
            Text(shortened(item.record.title, 70)),
            str(item.record.year or ""),
            what,
        )
    console().print(table)
    if len(items) > _SHOWN:
        console().print(f"… and {len(items) - _SHOWN:,} more")


def _happens(item: Item) -> Text:
    from rich.text import Text

    if item.paper is not None:
        gained = ", ".join(item.gains).replace("_", " ")
        there = f"is there: {shortened(item.paper.slug, 40)} ({item.by})"
        return Text(f"{there}; fills {gained}" if gained else there, style="" if gained else "dim")
    if item.repeats is not None:
        return Text(f"repeats #{item.repeats}", style="yellow")
    return Text("new", style="green")


def _say(outcome: Outcome) -> None:
    console().print(
        f"{len(outcome.added):,} added, {len(outcome.filled):,} completed, "
        f"{outcome.unchanged:,} with nothing new, {outcome.citations:,} citations tied."
    )
