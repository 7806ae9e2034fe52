"""Lookups beside full-text search: a paper by its identifier, institutions by name, near spellings."""

from __future__ import annotations

import difflib

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from exactformer.studio.library import names
from exactformer.studio.library.search import Query
from exactformer.studio.library.tables import Institution, Paper, Person

MOST_NAMES = 2000
SHORTEST = 4
"""Letters of a word for which near spellings are looked for."""


def by_identifier(db: Session, typed: str) -> int | None:
    """Return the id of the paper with this arXiv id, DOI, OpenAlex id or web address, if it is one."""
    typed = typed.strip()
    conditions = [
        column == value
        for column, value in (
            (Paper.arxiv_id, names.arxiv_id(typed)),
            (Paper.doi, names.doi(typed)),
            (Paper.openalex_id, names.openalex_id(typed)),
            (Paper.url, names.web_address(typed)),
        )
        if value
    ]
    return db.scalar(select(Paper.id).where(or_(*conditions)).limit(1)) if conditions else None


def institutions(db: Session, query: Query, limit: int = 5) -> list[Institution]:
    """Return institutions whose names have all the words."""
    if not query:
        return []
    statement = select(Institution)
    for word in query.words:
        statement = statement.where(Institution.normalised_name.contains(word, autoescape=True))
    return list(db.scalars(statement.order_by(Institution.name).limit(limit)))


def near(db: Session, query: Query) -> str | None:
    """Return the query with the one word replaced that is most nearly a name or a word of a title."""
    for word in query.words:
        if len(word) < SHORTEST:
            continue
        known = {
            part
            for column in (Person.normalised_name, Paper.normalised_title)
            for name in db.scalars(
                select(column).where(column.contains(word[:3], autoescape=True)).limit(MOST_NAMES)
            )
            for part in name.split()
        }
        close = difflib.get_close_matches(word, known - {word}, n=1, cutoff=0.8)
        if close:
            return " ".join(close[0] if one == word else one for one in query.words)
    return None
