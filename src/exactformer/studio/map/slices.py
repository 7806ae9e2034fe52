"""A slice of the map: what lies around a node, as much of it as can be read.

A slice begins with its centre and walks outwards: the centre's neighbours, then (at depth 2) the
neighbours of all that is shown, then those of nodes that the reader expanded. Of the neighbours
found at a walk, each kind gets a place in turn, and within a kind those come first that have most
edges to what was walked, then most edges at all. Between the nodes shown, all edges are shown. What
is adjacent to a walked node and has no place is counted by kind, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from sqlalchemy import Select, func, select, union_all
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.map.nodes import Node, describe, require
from exactformer.studio.map.relations import (
    KINDS,
    STEPS,
    Edge,
    Key,
    Step,
    by_kind,
    degrees,
    edges_among,
)

DEPTHS = (1, 2)
LARGEST = 200
"""Nodes of a slice at most."""

EXPANSIONS = 20
"""Nodes that can be expanded in one slice."""

WALKED = 4000
"""Edges followed at depth 2: the nodes with the fewest go first, so that hubs are left closed."""

CANDIDATES = 2
"""For each place, so many neighbours of a kind, those with most edges to what was walked, compete."""

Degrees = dict[Key, int]


@dataclass(frozen=True)
class Slice:
    """Part of the map. ``walked``: whose neighbours are shown or counted in ``left_out``."""

    centre: Key
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    walked: frozenset[Key]
    left_out: dict[str, int]


def explore(
    db: Session,
    centre: Key,
    depth: int = 1,
    kinds: Collection[str] = KINDS,
    limit: int = 60,
    expanded: Sequence[Key] = (),
) -> Slice:
    """Return the slice around a node, with the neighbours of expanded nodes added."""
    _check(depth, kinds, limit, expanded)
    shown = dict.fromkeys((centre, *expanded))
    require(db, shown)
    walked = {centre, *expanded}
    counted: Degrees = {}
    room = (limit - len(shown)) // depth
    left_out = _walk(db, [centre], shown, kinds, room, counted)
    if depth == 2:
        walked.update(_affordable(_count(db, shown, counted)))
        left_out = _walk(db, walked, shown, kinds, limit - len(shown), counted)
    for key in expanded:
        _walk(db, [key], shown, kinds, min(limit, LARGEST - len(shown)), counted)
    if expanded:
        left_out = _walk(db, walked, shown, kinds, 0, counted)
    return Slice(
        centre,
        tuple(describe(db, shown, _count(db, shown, counted))),
        tuple(edges_among(db, shown)),
        frozenset(walked),
        {kind: number for kind, number in left_out.items() if number},
    )


def start(db: Session) -> Key | None:
    """Return where a reader who names no node begins: the paper with most claims, or the newest."""
    claims = select(Claim.paper_id).group_by(Claim.paper_id).order_by(func.count().desc())
    newest = select(Paper.id).order_by(Paper.id.desc())
    found = db.scalar(claims.limit(1)) or db.scalar(newest.limit(1))
    return None if found is None else Key("paper", found)


def _check(depth: int, kinds: Collection[str], limit: int, expanded: Sequence[Key]) -> None:
    if depth not in DEPTHS:
        raise InvalidError(f"depth {depth}: a slice reaches 1 or 2 steps")
    if not kinds or not set(kinds) <= set(KINDS):
        raise InvalidError(f"kinds of nodes are {', '.join(KINDS)}; name at least one")
    if not 1 <= limit <= LARGEST:
        raise InvalidError(f"limit {limit}: a slice has 1 to {LARGEST} nodes")
    if len(expanded) > EXPANSIONS:
        raise InvalidError(f"{len(expanded)} nodes expanded: at most {EXPANSIONS} at a time")


def _walk(
    db: Session,
    walked: Collection[Key],
    shown: dict[Key, None],
    kinds: Collection[str],
    room: int,
    counted: Degrees,
) -> dict[str, int]:
    """Show neighbours as far as there is room, kinds in turn; return how many are left, by kind."""
    most = max(1, CANDIDATES * room)
    found = {kind: _ranked(db, walked, shown, kind, most) for kind in kinds}
    if room > 0:
        _count(db, [key for links, _ in found.values() for key in links], counted)
        columns = [_ordered(links, counted)[:room] for links, _ in found.values()]
        turns = [key for key in chain.from_iterable(zip_longest(*columns)) if key is not None]
        shown.update(dict.fromkeys(turns[:room]))
    return {
        kind: total - sum(key in shown for key in links) for kind, (links, total) in found.items()
    }


def _count(db: Session, keys: Collection[Key], counted: Degrees) -> Degrees:
    """Count the edges of nodes, unless that was done before."""
    counted.update(degrees(db, [key for key in keys if key not in counted]))
    return {key: counted[key] for key in keys}


def _ordered(links: dict[Key, int], counted: Degrees) -> list[Key]:
    return sorted(links, key=lambda key: (-links[key], -counted[key], key))


def _ranked(
    db: Session, walked: Collection[Key], shown: Collection[Key], kind: str, limit: int
) -> tuple[dict[Key, int], int]:
    """Return neighbours of a kind with their edges to the walked nodes, and how many there are."""
    origins = by_kind(walked)
    steps = [step for step in STEPS if step.goal == kind and step.origin in origins]
    parts = [_edges(step, origins[step.origin]) for step in steps]
    if not parts:
        return {}, 0
    adjacent = union_all(*parts).subquery()
    links = func.count()
    chosen = (
        select(adjacent.c.id, links, func.count().over())
        .where(adjacent.c.id.not_in(by_kind(shown).get(kind, [])))
        .group_by(adjacent.c.id)
        .order_by(links.desc(), adjacent.c.id)
        .limit(limit)
    )
    rows = db.execute(chosen).all()
    return {Key(kind, row[0]): row[1] for row in rows}, rows[0][2] if rows else 0


def _edges(step: Step, origins: Collection[int]) -> Select[Any]:
    chosen = step.relation.pairs(step.near.label("origin"), step.far.label("id"))
    chosen = chosen.where(step.near.in_(origins))
    return chosen.distinct() if step.relation.repeats else chosen


def _affordable(counted: Degrees) -> Iterator[Key]:
    """Give the nodes that can be walked together, those with fewest edges first."""
    followed = 0
    for key, degree in sorted(counted.items(), key=lambda item: (item[1], item[0])):
        followed += degree
        if followed > WALKED:
            return
        yield key
