"""Which formats there are, and how papers become a text in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.library.exporting import bibtex, table
from exactformer.studio.library.exporting.own import written
from exactformer.studio.library.paper_records import records, whole
from exactformer.studio.library.records import PaperRecord
from exactformer.studio.library.tables import Paper

Format = Literal["json", "bibtex", "csv"]
Named = tuple[str, PaperRecord]
_BATCH = 200


@dataclass(frozen=True)
class Form:
    """A format: what browsers call it, how its files end, and what writes it."""

    label: str
    media_type: str
    suffix: str
    write: Callable[[Iterable[Named]], Iterator[str]]


FORMATS: dict[str, Form] = {
    "json": Form("JSON", "application/json", "json", written),
    "bibtex": Form("BibTeX", "application/x-bibtex; charset=utf-8", "bib", bibtex.written),
    "csv": Form("CSV", "text/csv; charset=utf-8", "csv", table.written),
}


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
