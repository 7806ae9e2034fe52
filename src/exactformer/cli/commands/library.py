"""``exactformer library``: papers out of the studio's library, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from exactformer.cli.support.options import Force, Json, out_file
from exactformer.cli.support.output import print_json, print_saved
from exactformer.core.whole_files import whole_file
from exactformer.errors import InputError, needs
from exactformer.progress import progress

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from exactformer.studio.storage.engine import Database

_DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="The studio's data: sqlite:///file.db or postgresql://user@host/name. Unless given, "
        "what `exactformer serve` uses.",
    ),
]
Form = Literal["json", "bibtex"]
"""A format that a library is written in."""


def export(
    form: Annotated[Form, typer.Option("--format")] = "json",
    out: Annotated[Path | None, out_file()] = None,
    force: Force = False,
    collection: str | None = None,
    paper: str | None = None,
    database: _DatabaseOption = None,
    as_json: Json = False,
) -> None:
    """Write the library, a collection or a paper as JSON or BibTeX.

    The JSON holds everything the library knows of a paper. --json reports on the file that -o names.

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
