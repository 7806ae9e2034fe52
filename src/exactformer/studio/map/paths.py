"""The shortest path between two nodes, by breadth-first search from both ends.

Each round takes the whole frontier of one end a step further: of the end whose frontier has fewer
edges to follow. While no node is known to both sides, every node within the sides' radii is known
and none is shared, so the distance exceeds the sum of the radii; the first node that is shared is
therefore on a shortest path, and the round can end there.

A library may be large and the ends far apart, so the search visits a bounded number of nodes; when
they are spent it says so instead of guessing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.map.nodes import Node, describe, require
from exactformer.studio.map.relations import (
    BATCH,
    KINDS,
    STEPS,
    Edge,
    Key,
    by_kind,
    degrees,
    edges_among,
)
from exactformer.studio.storage.slices import chunks

VISITED = 50_000
"""Nodes a search may visit."""


@dataclass(frozen=True)
class Route:
    """The answer: nodes from one end to the other, or none and whether that is certain."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    visited: int
    exhausted: bool

    @property
    def sentence(self) -> str:
        """The answer in words."""
        if self.nodes:
            steps = len(self.nodes) - 1
            return "The same node." if not steps else f"{steps} step{'s' * (steps > 1)} apart."
        if self.exhausted:
            return "No path leads from one to the other."
        return (
            f"No path was found among the {self.visited:,} nodes nearest to the two; "
            "a longer one may exist. Choose ends that are closer, or fewer kinds."
        )


@dataclass
class _Side:
    """What is known from one end: for each node, the one it was reached from."""

    frontier: list[Key]
    parents: dict[Key, Key | None] = field(default_factory=dict)

    def trace(self, key: Key | None) -> Iterator[Key]:
        while key is not None:
            yield key
            key = self.parents[key]


def shortest_path(
    db: Session, one: Key, other: Key, kinds: Collection[str] = KINDS, most: int = VISITED
) -> Route:
    """Find a shortest path; between its ends it passes through nodes of the given kinds only."""
    if not set(kinds) <= set(KINDS):
        raise InvalidError(f"kinds of nodes are {', '.join(KINDS)}")
    require(db, (one, other))
    low, high = sorted((one, other))
    sides = tuple(_Side([key], {key: None}) for key in (low, high))
    allowed = {*kinds, one.kind, other.kind}
    meeting = low if low == high else None
    visited = len({low, high})
    while meeting is None and visited < most and sides[0].frontier and sides[1].frontier:
        near, far = sorted(sides, key=lambda side: sum(degrees(db, side.frontier).values()))
        meeting = _advance(db, near, far, allowed, set(kinds), most - visited)
        visited = sum(len(side.parents) for side in sides)
    if meeting is None:
        return Route((), (), visited, exhausted=visited < most)
    path = [*reversed(list(sides[0].trace(meeting))), *list(sides[1].trace(meeting))[1:]]
    path = path if path[0] == one else path[::-1]
    steps = set(pairwise(path))
    edges = [e for e in edges_among(db, path) if {(e[0], e[2]), (e[2], e[0])} & steps]
    return Route(tuple(describe(db, path)), tuple(edges), visited, exhausted=False)


def _advance(
    db: Session, near: _Side, far: _Side, allowed: set[str], kinds: set[str], room: int
) -> Key | None:
    """Take a frontier one step further; return a node that both sides know."""
    following: list[Key] = []
    for origin, key in _adjacent(db, near.frontier, allowed):
        if key in near.parents or (key.kind not in kinds and key not in far.parents):
            continue
        near.parents[key] = origin
        if key in far.parents:
            return key
        following.append(key)
        if len(following) >= room:
            break
    near.frontier = following
    return None


def _adjacent(db: Session, frontier: list[Key], kinds: set[str]) -> Iterator[tuple[Key, Key]]:
    """Give the frontier's edges as pairs (node of the frontier, neighbour)."""
    origins = by_kind(frontier)
    for step in STEPS:
        if step.goal not in kinds:
            continue
        for ids in chunks(origins.get(step.origin, ()), BATCH):
            chosen = step.relation.pairs(step.near, step.far).where(step.near.in_(ids))
            for origin, goal in db.execute(chosen):
                yield Key(step.origin, origin), Key(step.goal, goal)
