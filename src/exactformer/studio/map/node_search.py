"""Nodes by what they are called: every word asked for occurs in the name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.names import normalised
from exactformer.studio.library.tables import Claim, Institution, Paper, Person, Topic
from exactformer.studio.map.nodes import Node, describe
from exactformer.studio.map.relations import KINDS, Key

LONGEST_QUERY = 200
MOST = 50

_NAMES: dict[str, tuple[Any, Any]] = {
    "paper": (Paper.id, Paper.normalised_title),
    "person": (Person.id, Person.normalised_name),
    "institution": (Institution.id, Institution.normalised_name),
    "topic": (Topic.id, func.lower(Topic.name)),
    "claim": (Claim.id, func.lower(Claim.title)),
}


def search(
    db: Session, query: str, kinds: Collection[str] = KINDS, limit: int = 20
) -> tuple[Node, ...]:
    """Return nodes whose names hold every word; each kind has its part of the places.

    Names that begin with the query come first, then the shortest. Where one kind has fewer than its
    part, the others have more.
    """
    if len(query) > LONGEST_QUERY:
        raise InvalidError(f"a search has at most {LONGEST_QUERY} characters, not {len(query)}")
    if not 1 <= limit <= MOST:
        raise InvalidError(f"limit {limit}: a search gives 1 to {MOST} nodes")
    words = normalised(query).split()
    if not words:
        return ()
    found = {kind: _named(db, kind, words, limit) for kind in KINDS if kind in kinds}
    places = [
        key for rank in range(limit) for keys in found.values() for key in keys[rank : rank + 1]
    ]
    kept = set(places[:limit])
    return tuple(describe(db, [key for keys in found.values() for key in keys if key in kept]))


def _named(db: Session, kind: str, words: list[str], limit: int) -> list[Key]:
    identifier, name = _NAMES[kind]
    begins = case((name.startswith(" ".join(words), autoescape=True), 0), else_=1)
    chosen = (
        select(identifier)
        .where(*(name.contains(word, autoescape=True) for word in words))
        .order_by(begins, func.length(name), identifier)
        .limit(limit)
    )
    return [Key(kind, found) for found in db.scalars(chosen)]
