"""``exactformer library``: papers in and out of the studio's library, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from exactformer.cli.support.options import Force, Json, out_file
from exactformer.cli.support.output import console, empty_table, print_json, print_saved, shortened
from exactformer.core.whole_files import whole_file
from exactformer.errors import InputError, needs
from exactformer.progress import progress

if TYPE_CHECKING:
    from rich.text import Text
    from sqlalchemy.orm import Session

    from exactformer.studio.library.imports import Item
    from exactformer.studio.library.records import PaperRecord
    from exactformer.studio.storage.engine import Database

_DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="The studio's data: sqlite:///file.db or postgresql://user@host/name. Unless given, "
        "what `exactformer serve` uses.",
    ),
]
Form = Literal["json", "bibtex", "csv"]
"""A format that a library is written in."""
_SHOWN = 60


def import_(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False)],
    database: _DatabaseOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: Json = False,
) -> None:
    """Read papers from files, show what would change, and write it once you agree.

    Papers that the library has already are found by DOI, arXiv id and title; their gaps
    are filled, nothing is overwritten. With --json nothing is asked: only --yes writes.

    Args:
        files: BibTeX, or an export of a library.
        yes: Write without asking.
    """
    with closing(_database(database)) as library:
        from exactformer.studio.library import imports
        from exactformer.studio.security.actor import Actor

        read = [_read(path) for path in files]
        records = [record for _, some in read for record in some]
        with library.session() as db:
            items = imports.preview(db, records)
            papers = [_facts(item) for item in items]
        if not as_json:
            _show(papers)
        changes = any(item.is_new or item.gains or item.citations for item in items)
        agreed = changes and (yes or (not as_json and typer.confirm("Write this?")))
        if not agreed:
            if as_json:
                print_json({"papers": papers})
            else:
                console().print("Nothing was written." if changes else "Nothing to write.")
            raise typer.Exit(int(changes and not as_json))
        formats = ", ".join(dict.fromkeys(format for format, _ in read))
        with library.writing() as db:
            outcome = imports.write(db, Actor(None, "", "command line", "admin"), formats, records)
            counts = {
                "added": len(outcome.added),
                "completed": len(outcome.filled),
                "unchanged": outcome.unchanged,
                "citations": outcome.citations,
            }
        if as_json:
            address = library.url.render_as_string(hide_password=True)
            print_json({"papers": papers, **counts}, address)
        else:
            console().print(", ".join(f"{count:,} {name}" for name, count in counts.items()))


def export(
    form: Annotated[Form, typer.Option("--format")] = "json",
    out: Annotated[Path | None, out_file()] = None,
    force: Force = False,
    collection: str | None = None,
    paper: str | None = None,
    database: _DatabaseOption = None,
    as_json: Json = False,
) -> None:
    """Write the library, a collection or a paper as JSON, BibTeX or CSV.

    The JSON can be imported again without loss. In CSV a cell that begins with =, +, - or @ gets an
    apostrophe in front, so that no spreadsheet takes it for a formula. --json reports on the file
    that -o names.

    Args:
        form: What to write.
        out: A file; standard output unless given.
        collection: Only a shared collection, by the token in its link.
        paper: Only one paper, by its slug.
    """
    if as_json and out is None:
        raise InputError("--json reports on a file; name it with -o FILE, or choose --format json")
    if collection and paper:
        raise InputError("Give --collection or --paper, not both.")
    with closing(_database(database)) as library, library.session() as db:
        pieces = _pieces(db, form, collection, paper)
        if out is None:
            for piece in pieces:
                typer.echo(piece, nl=False)
            return
        with whole_file(out) as file, progress("Papers", None) as tell:
            for number, piece in enumerate(pieces):
                file.write(piece)
                tell(number)
    if as_json:
        print_json({"format": form, "bytes": out.stat().st_size}, out)
    else:
        print_saved(out)


def _pieces(db: Session, form: Form, collection: str | None, paper: str | None) -> Iterator[str]:
    from exactformer.studio.errors import NotFoundError
    from exactformer.studio.library import exports, papers
    from exactformer.studio.opinions import collections

    if paper is not None:
        chosen = [papers.get(db, paper)]
    elif collection is not None:
        try:
            chosen = [item.paper for item in collections.shared(db, collection).items]
        except NotFoundError:
            raise InputError(
                "No shared collection has this token; it is the last part of the link."
            ) from None
    else:
        yield from exports.stream(db, form)
        return
    yield exports.export(db, chosen, form)[0]


def _database(address: str | None) -> Database:
    with needs("studio", "the library"):
        from exactformer.studio.database import open_database
        from exactformer.studio.settings import default_database
    return open_database(address or default_database())


def _read(path: Path) -> tuple[str, list[PaperRecord]]:
    from exactformer.studio.errors import StudioError
    from exactformer.studio.library import formats
    from exactformer.studio.library.formats.texts import MOST_BYTES

    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{path} has {size:,} bytes; the limit is {MOST_BYTES:,}.")
    try:
        return formats.read(path.read_bytes())
    except StudioError as refusal:
        raise InputError(f"{path}: {refusal}") from None


def _facts(item: Item) -> dict[str, Any]:
    """Return what would happen to one record."""
    return {
        "title": item.record.title,
        "year": item.record.year,
        "known_as": None if item.paper is None else item.paper.slug,
        "known_by": item.by,
        "fills": list(item.gains),
        "repeats": item.repeats,
    }


def _show(papers: list[dict[str, Any]]) -> None:
    from rich.text import Text

    table = empty_table("#", "Paper", "Year", "What would happen", ruled=False)
    for number, paper in enumerate(papers[:_SHOWN], start=1):
        title = Text(shortened(paper["title"], 70))
        table.add_row(str(number), title, str(paper["year"] or ""), _happens(paper))
    console().print(table)
    if len(papers) > _SHOWN:
        console().print(f"… and {len(papers) - _SHOWN:,} more")


def _happens(paper: dict[str, Any]) -> Text:
    from rich.text import Text

    if paper["known_as"] is not None:
        gained = ", ".join(paper["fills"]).replace("_", " ")
        there = f"is there: {shortened(paper['known_as'], 40)} ({paper['known_by']})"
        return Text(f"{there}; fills {gained}" if gained else there, style="" if gained else "dim")
    if paper["repeats"] is not None:
        return Text(f"repeats #{paper['repeats']}", style="yellow")
    return Text("new", style="green")
