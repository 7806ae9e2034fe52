"""Nodes: what each says of itself (a label, a short one for drawing, its page), and nodes by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError, NotFoundError
from exactformer.studio.library.names import normalised
from exactformer.studio.library.tables import Authorship, Claim, Institution, Paper, Person, Topic
from exactformer.studio.map.relations import BATCH, KINDS, Key, by_kind, degrees
from exactformer.studio.storage.slices import chunks
from exactformer.studio.web.markup import plain

LONGEST_QUERY = 200
MOST = 50
SHORT = 28
"""Letters of a label in the drawing."""


@dataclass(frozen=True)
class Node:
    """A node as it is shown. ``degree`` counts its edges in the whole library."""

    key: Key
    label: str
    short: str
    href: str
    degree: int


Described = tuple[str, str, str]


def describe(
    db: Session, keys: Iterable[Key], counted: Mapping[Key, int] | None = None
) -> list[Node]:
    """Describe nodes in the order given; one that is not in the library is an error.

    ``counted`` are their degrees, if they are known already.
    """
    wanted = list(dict.fromkeys(keys))
    texts = require(db, wanted)
    counted = degrees(db, wanted) if counted is None else counted
    return [Node(key, *texts[key], counted[key]) for key in wanted]


def require(db: Session, keys: Iterable[Key]) -> dict[Key, Described]:
    """Return label, short label and page of nodes, which must all be in the library."""
    wanted = list(keys)
    texts: dict[Key, Described] = {}
    for kind, ids in by_kind(wanted).items():
        for some in chunks(ids, BATCH):
            for identifier, *described in _DESCRIBING[kind](db, some):
                texts[Key(kind, identifier)] = (described[0], described[1], described[2])
    for key in wanted:
        if key not in texts:
            raise NotFoundError(f"the library has no {key.kind} number {key.id}")
    return texts


def shortened(text: str) -> str:
    """Cut a label for the drawing, at a word where one ends in time."""
    text = plain(text)
    if len(text) <= SHORT:
        return text
    head = text[: SHORT - 1]
    return (head.rpartition(" ")[0] if " " in head[SHORT // 2 :] else head).rstrip(" ,:") + "…"


def surname(name: str) -> str:
    """Return the name by which somebody is cited: before the comma, or the last word."""
    before, comma, _ = name.partition(",")
    return before if comma else name.split()[-1]


def _papers(db: Session, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    """Papers are drawn with the first author's last name and the year, as they are spoken of."""
    first = (
        select(Person.name)
        .join(Authorship, Authorship.person_id == Person.id)
        .where(Authorship.paper_id == Paper.id)
        .order_by(Authorship.position)
        .limit(1)
        .scalar_subquery()
    )
    chosen = select(Paper.id, Paper.slug, Paper.title, Paper.year, first)
    found = []
    for identifier, slug, title, year, author in db.execute(chosen.where(Paper.id.in_(ids))):
        spoken = f"{surname(author)} {year}" if author and year else shortened(title)
        label = f"{title} ({year})" if year else title
        found.append((identifier, label, spoken, f"/papers/{slug}"))
    return found


def _named(
    model: type[Person | Institution | Topic], page: str, place: str
) -> Callable[[Session, Sequence[int]], list[tuple[Any, ...]]]:
    """Return what describes things by their names; their pages are at ``place`` under ``page``."""

    def described(db: Session, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        chosen = select(model.id, model.name, getattr(model, place)).where(model.id.in_(ids))
        return [(i, name, shortened(name), f"{page}/{at}") for i, name, at in db.execute(chosen)]

    return described


def _claims(db: Session, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    chosen = (
        select(Claim.id, Claim.title, Claim.anchor, Paper.slug)
        .join(Paper, Paper.id == Claim.paper_id)
        .where(Claim.id.in_(ids))
    )
    return [
        (i, title, shortened(title), f"/papers/{slug}#{anchor}")
        for i, title, anchor, slug in db.execute(chosen)
    ]


_DESCRIBING: dict[str, Callable[[Session, Sequence[int]], list[tuple[Any, ...]]]] = {
    "paper": _papers,
    "person": _named(Person, "/people", "id"),
    "institution": _named(Institution, "/institutions", "id"),
    "topic": _named(Topic, "/topics", "slug"),
    "claim": _claims,
}


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
    found = {kind: _called(db, kind, words, limit) for kind in KINDS if kind in kinds}
    places = [
        key for rank in range(limit) for keys in found.values() for key in keys[rank : rank + 1]
    ]
    kept = set(places[:limit])
    return tuple(describe(db, [key for keys in found.values() for key in keys if key in kept]))


def _called(db: Session, kind: str, words: list[str], limit: int) -> list[Key]:
    identifier, name = _NAMES[kind]
    begins = case((name.startswith(" ".join(words), autoescape=True), 0), else_=1)
    chosen = (
        select(identifier)
        .where(*(name.contains(word, autoescape=True) for word in words))
        .order_by(begins, func.length(name), identifier)
        .limit(limit)
    )
    return [Key(kind, found) for found in db.scalars(chosen)]
