"""Papers for other places: files (JSON that loses nothing, BibTeX), and how to cite a paper.

:func:`export` makes one text of some papers, :func:`stream` goes through the whole library piece by
piece, :func:`as_file` answers with a file that has a name. :func:`reference` is a line for a text,
:func:`bibtex_entry` an entry for BibTeX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.responses import Response

from exactformer.studio.library.catalogue import record, records, whole
from exactformer.studio.library.formats import bibtex, own
from exactformer.studio.library.records import PaperRecord
from exactformer.studio.library.tables import Claim, Paper

Format = Literal["json", "bibtex"]
Named = tuple[str, PaperRecord]
_BATCH = 200
MOST_NAMES = 8
"""Authors whom a reference names."""


@dataclass(frozen=True)
class Form:
    """A format: what browsers call it, how its files end, and what writes it."""

    label: str
    media_type: str
    suffix: str
    write: Callable[[Iterable[Named]], Iterator[str]]


FORMATS: dict[str, Form] = {
    "json": Form("JSON", "application/json", "json", own.written),
    "bibtex": Form("BibTeX", "application/x-bibtex; charset=utf-8", "bib", bibtex.written),
}
Wanted = Annotated[Format, Query()]


def export(db: Session, papers: Sequence[Paper], format: Format) -> tuple[str, str]:
    """Return some papers as one text, in their order, and its media type."""
    form = FORMATS[format]
    ids = [paper.id for paper in papers]
    found = db.scalars(select(Paper).where(Paper.id.in_(ids)).options(*whole()))
    by_id = {paper.id: paper for paper in found}
    return "".join(form.write(_named(db, [by_id[id] for id in ids]))), form.media_type


def stream(db: Session, format: Format) -> Iterator[str]:
    """Give the whole library as a text in pieces; only a few papers are in memory at a time."""
    return FORMATS[format].write(_everything(db))


def _everything(db: Session) -> Iterator[Named]:
    last = 0
    while True:
        batch = db.scalars(
            select(Paper).where(Paper.id > last).order_by(Paper.id).limit(_BATCH).options(*whole())
        ).all()
        if not batch:
            return
        named, last = list(_named(db, batch)), batch[-1].id
        db.expunge_all()
        db.rollback()  # whoever reads slowly holds no connection meanwhile
        yield from named


def _named(db: Session, papers: Sequence[Paper]) -> Iterator[Named]:
    return zip([paper.slug for paper in papers], records(db, papers), strict=True)


def as_file(db: Session, papers: Sequence[Paper], format: Format, name: str) -> Response:
    """Some papers, as a file with a name."""
    text, media_type = export(db, papers, format)
    return Response(text, media_type=media_type, headers=named(name, FORMATS[format].suffix))


def named(name: str, suffix: str) -> dict[str, str]:
    """Return the header that names a file."""
    return {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}


def reference(paper: Paper, claim: Claim | None = None) -> str:
    """Return a reference as it stands in a list, to a claim of ``paper`` if one is given."""
    names = [place.person.name for place in paper.authorships]
    who = ", ".join(names[:MOST_NAMES]) + (" and others" if len(names) > MOST_NAMES else "")
    places = [
        paper.source if not paper.arxiv_id or "arxiv" not in paper.source.lower() else "",
        f"arXiv:{paper.arxiv_id}" if paper.arxiv_id else "",
        f"doi:{paper.doi}" if paper.doi else "",
    ]
    sentence = f"{who} ({paper.year or 'undated'}). " if who else ""
    sentence += paper.title.rstrip(".") + "." if paper.title[-1:] not in "?!" else paper.title
    if where := ", ".join(filter(None, places)):
        sentence += f" {where}."
    return f"{sentence} {claim.title.partition(':')[0]}." if claim else sentence


def bibtex_entry(paper: Paper) -> str:
    """Return the BibTeX entry of a paper whose parts are loaded, without abstract and keywords."""
    whole = record(paper)
    brief = PaperRecord(
        **{name: getattr(whole, name) for name in ("title", "authors", "year", "kind", "source")},
        **{name: getattr(whole, name) for name in ("doi", "arxiv_id", "url")},
    )
    return "".join(bibtex.written([(paper.slug, brief)])).strip()
