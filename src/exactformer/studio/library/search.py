"""Full-text search: what a reader types is words, never syntax; the last one may be unfinished.

All words must occur, in any field. ``_index`` is the one thing that knows which database it
asks; highlights are made from the stored text, with everything around them escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape
from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Select,
    Subquery,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.orm import Session

from exactformer.studio.library.names import folded, words
from exactformer.studio.library.search_index import LONGEST_WORD

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


@dataclass(frozen=True)
class _Index:
    """The index as this database spells it: its key, whether a row matches, and how well.

    ``value`` is the key where it must not lead: SQLite would ask the index once for each paper.
    """

    key: ColumnElement[int]
    value: ColumnElement[int]
    matches: ColumnElement[bool]
    rank: ColumnElement[float]


def _index(db: Session, query: Query) -> _Index:
    if db.get_bind().dialect.name == "sqlite":
        rows = table("search_papers", column("rowid", Integer), column("rank", Float))
        given = " ".join(f'"{word}"' for word in query.words) + ("*" if query.open else "")
        matching = literal_column("search_papers").op("MATCH")(given)
        value = literal_column("+search_papers.rowid", Integer)
        return _Index(rows.c.rowid, value, matching, rows.c.rank)
    rows = table("search_papers", column("paper_id", Integer), column("document"))
    given = " & ".join(f"'{word}'" for word in query.words) + (":*" if query.open else "")
    wanted = cast(given, TSQUERY)
    rank = -func.ts_rank(rows.c.document, wanted, type_=Float)
    key = rows.c.paper_id
    return _Index(key, key, rows.c.document.op("@@")(wanted), rank)


def matching(db: Session, query: Query) -> Select[int]:
    """Return a query for the ids of all papers that match, in no order."""
    index = _index(db, query)
    return select(index.key).where(index.matches)


def ranked(db: Session, query: Query, among: Select[int] | None = None) -> Subquery:
    """Return a table of ``paper_id`` and ``rank``, smaller is better, of papers that match.

    Where more than ``MOST_RANKED`` match, those added last are ranked: words that everything
    holds say little about what is best, and would take long to say it.
    """
    index = _index(db, query)
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
