"""Which paper of the library a record or a reference speaks of, if any.

By DOI, arXiv id, in this order; else by normalised title, if years are at most one
apart and the first authors' family names agree (:class:`records.TitleKey`).
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.library.records import PaperRecord, TitleKey, keys
from exactformer.studio.library.tables import Authorship, Paper, Person
from exactformer.studio.storage.slices import chunks

_COLUMNS = {"doi": Paper.doi, "arxiv": Paper.arxiv_id}


def match(db: Session, record: PaperRecord) -> int | None:
    """Return the id of the paper that a record is about, if it is already there."""
    own = keys(record)
    known = resolve(db, own)
    return next((known[key] for key in own if key in known), None)


def resolve(db: Session, wanted: Iterable[str]) -> dict[str, int]:
    """Return the ids of the papers that these keys speak of; unknown keys are left out."""
    by_scheme: dict[str, list[str]] = {}
    for key in dict.fromkeys(wanted):
        scheme, _, mark = key.partition(":")
        by_scheme.setdefault(scheme, []).append(mark)
    found: dict[str, int] = {}
    for scheme, column in _COLUMNS.items():
        for some in chunks(by_scheme.get(scheme, [])):
            for id, value in db.execute(select(Paper.id, column).where(column.in_(some))):
                found[f"{scheme}:{value}"] = id
    return found | _by_title(db, by_scheme.get("title", []))


def _by_title(db: Session, marks: list[str]) -> dict[str, int]:
    wanted = {mark: TitleKey.parse(mark) for mark in marks}
    there: dict[str, list[tuple[int, TitleKey]]] = {}
    for some in chunks(sorted({key.title for key in wanted.values()})):
        rows = db.execute(
            select(Paper.id, Paper.normalised_title, Paper.year, Person.name)
            .outerjoin(Authorship, (Authorship.paper_id == Paper.id) & (Authorship.position == 0))
            .outerjoin(Person)
            .where(Paper.normalised_title.in_(some))
            .order_by(Paper.id)
        )
        for id, title, year, first in rows:
            key = TitleKey.of(title, year, first or "")
            there.setdefault(title, []).append((id, key))
    found: dict[str, int] = {}
    for mark, key in wanted.items():
        fitting = [(id, other) for id, other in there.get(key.title, []) if key.same_work(other)]
        if fitting:
            nearest = min(fitting, key=lambda one: _years_apart(key, one[1]))
            found[f"title:{mark}"] = nearest[0]
    return found


def _years_apart(one: TitleKey, other: TitleKey) -> int:
    """Return 0 or 1 for works that may be the same, and 2 where a year is not known."""
    return 2 if one.year is None or other.year is None else abs(one.year - other.year)
