"""What a reader of the map looks at: a state that fits in an address, and what it shows.

Each entry of a view says in words what the drawing draws: the node, its edges to others that are
shown, and how many more it has. Drawing and list are made from the same entries.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from exactformer.studio.map.nodes import Node
from exactformer.studio.map.relations import KINDS, Edge, Key
from exactformer.studio.map.slices import Slice, explore

LIMIT = 40

PHRASES = {
    "cites": ("cites", "is cited by"),
    "wrote": ("wrote", "was written by"),
    "works-at": ("works at", "is the house of"),
    "about": ("is about", "is the topic of"),
    "claims": ("claims", "is claimed by"),
}
"""How an edge is said from its source, and from its target."""


@dataclass(frozen=True)
class State:
    """Where a reader is: the centre, how far she looks, and what she expanded."""

    node: Key
    depth: int = 1
    kinds: tuple[str, ...] = KINDS
    limit: int = LIMIT
    expanded: tuple[Key, ...] = ()

    @property
    def query(self) -> str:
        """The state as the query of an address; what is as usual is not said."""
        said = {
            "node": str(self.node),
            "depth": str(self.depth) if self.depth != 1 else "",
            "kinds": ",".join(self.kinds) if set(self.kinds) != set(KINDS) else "",
            "limit": str(self.limit) if self.limit != LIMIT else "",
            "expanded": ",".join(map(str, self.expanded)),
        }
        return urlencode({name: value for name, value in said.items() if value}, safe=":,")

    def focused(self, key: Key) -> State:
        """Look from another node."""
        return replace(self, node=key, expanded=())

    def expanding(self, key: Key) -> State:
        """Show a node's neighbours too."""
        return replace(self, expanded=(*self.expanded, key))

    def collapsing(self, key: Key) -> State:
        """Show them no longer."""
        return replace(self, expanded=tuple(other for other in self.expanded if other != key))


@dataclass(frozen=True)
class Relationship:
    """One kind of edge of a node, said from its side."""

    name: str
    phrase: str
    outwards: bool
    others: tuple[Node, ...]


@dataclass(frozen=True)
class Entry:
    """A node of a view; ``more`` counts the edges that are not shown."""

    node: Node
    relationships: tuple[Relationship, ...]
    more: int
    is_open: bool


@dataclass(frozen=True)
class View:
    """What a state shows."""

    state: State
    slice: Slice

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The nodes by kind, each with its edges."""
        nodes = {node.key: node for node in self.slice.nodes}
        edges: dict[Key, list[tuple[Edge, bool]]] = defaultdict(list)
        for edge in self.slice.edges:
            edges[edge.source].append((edge, True))
            edges[edge.target].append((edge, False))
        made = [
            Entry(
                node,
                _relationships(edges[key], nodes),
                node.degree - len(edges[key]),
                key in self.slice.walked,
            )
            for key, node in nodes.items()
        ]
        order = {kind: place for place, kind in enumerate(KINDS)}
        return tuple(sorted(made, key=lambda entry: order[entry.node.key.kind]))

    def grouped(self) -> dict[str, list[Entry]]:
        """The nodes by kind."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.node.key.kind, []).append(entry)
        return groups

    @property
    def centre(self) -> Entry:
        """The node looked from."""
        return next(entry for entry in self.entries if entry.node.key == self.slice.centre)


def look(db: Session, state: State) -> View:
    """Return what a state shows."""
    shown = explore(db, state.node, state.depth, state.kinds, state.limit, state.expanded)
    return View(state, shown)


def _relationships(
    edges: list[tuple[Edge, bool]], nodes: dict[Key, Node]
) -> tuple[Relationship, ...]:
    found: dict[tuple[str, bool], list[Node]] = defaultdict(list)
    for edge, outwards in edges:
        found[edge.relation, outwards].append(nodes[edge.target if outwards else edge.source])
    return tuple(
        Relationship(name, phrase, outwards, tuple(found[name, outwards]))
        for name, phrases in PHRASES.items()
        for phrase, outwards in zip(phrases, (True, False), strict=True)
        if (name, outwards) in found
    )
