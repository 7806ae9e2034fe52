"""Finding papers by words or by identifier, institutions by name, and near spellings of a word.

What a reader types is words, never syntax; the last one may be unfinished. All words must occur, in
any field. Highlights are made from the stored text, with everything around them escaped.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from markupsafe import Markup, escape
from sqlalchemy import Select, Subquery, or_, select
from sqlalchemy.orm import Session

from exactformer.studio.library import names
from exactformer.studio.library.names import folded, words
from exactformer.studio.library.search_index import LONGEST_WORD
from exactformer.studio.library.tables import Institution, Paper, Person
from exactformer.studio.storage.dialects import word_index

MOST_WORDS = 12
MOST_RANKED = 10_000
_WORD = re.compile(r"[^\W_]+")
_EXCERPT = 280


@dataclass(frozen=True)
class Query:
    """Words that must all occur; the last one is the beginning of a word while ``open``."""

    words: tuple[str, ...]
    open: bool

    def __bool__(self) -> bool:
        return bool(self.words)


def parse(typed: str) -> Query:
    """Read what a reader typed; a blank at the end says that the last word is whole."""
    found = tuple(dict.fromkeys(word[:LONGEST_WORD] for word in words(typed)))[:MOST_WORDS]
    return Query(found, open=not typed[-1:].isspace())


def matching(db: Session, query: Query) -> Select[int]:
    """Return a query for the ids of all papers that match, in no order."""
    index = word_index(db, query.words, query.open)
    return select(index.key).where(index.matches)


def ranked(db: Session, query: Query, among: Select[int] | None = None) -> Subquery:
    """Return a table of ``paper_id`` and ``rank``, smaller is better, of papers that match.

    Where more than ``MOST_RANKED`` match, those added last are ranked: words that everything
    holds say little about what is best, and would take long to say it.
    """
    index = word_index(db, query.words, query.open)
    found = select(index.key.label("paper_id"), index.rank.label("rank")).where(index.matches)
    if among is not None:
        found = found.where(index.value.in_(among))
    return found.order_by(index.key.desc()).limit(MOST_RANKED).subquery("ranked")


def highlight(source: str, query: Query) -> Markup:
    """Return ``source`` as safe HTML in which the words of ``query`` stand in ``<mark>``."""
    parts: list[Markup] = []
    end = 0
    for word in _WORD.finditer(source):
        if _hit(word[0], query):
            parts += [
                escape(source[end : word.start()]),
                Markup("<mark>{}</mark>").format(word[0]),
            ]
            end = word.end()
    return Markup("").join([*parts, escape(source[end:])])


def excerpt(source: str, query: Query) -> Markup:
    """Return the part of ``source`` around the first hit, highlighted."""
    first = next((word for word in _WORD.finditer(source) if _hit(word[0], query)), None)
    begin = max(0, first.start() - _EXCERPT // 3) if first else 0
    if begin:
        begin = source.rfind(" ", 0, begin) + 1
    end = begin + _EXCERPT
    if end < len(source):
        end = max(source.rfind(" ", begin, end), begin + _EXCERPT // 2)
    shown = highlight(source[begin:end], query)
    return (Markup("… ") if begin else Markup("")) + shown + (" …" if end < len(source) else "")


def _hit(word: str, query: Query) -> bool:
    bare = folded(word)
    return bare in query.words or (
        query.open and bool(query.words) and bare.startswith(query.words[-1])
    )


MOST_NAMES = 2000
SHORTEST = 4
"""Letters of a word for which near spellings are looked for."""


def by_identifier(db: Session, typed: str) -> int | None:
    """Return the id of the paper with this arXiv id, DOI or web address, if it is one."""
    typed = typed.strip()
    conditions = [
        column == value
        for column, value in (
            (Paper.arxiv_id, names.arxiv_id(typed)),
            (Paper.doi, names.doi(typed)),
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
