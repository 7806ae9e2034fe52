"""The research map for programs: slices, nodes by name, shortest paths."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from exactformer.studio import map as research_map
from exactformer.studio.map import KINDS, Edge, Key, Node
from exactformer.studio.web.request import Clean, ReadSession

ALL = ",".join(KINDS)

router = APIRouter(prefix="/api/v1/map", tags=["map"])

NodeName = Annotated[Clean, Field(max_length=40, examples=["paper:12"])]
Kinds = Annotated[
    Clean, Query(max_length=80, description=f"Kinds of nodes, by commas; of {', '.join(KINDS)}.")
]


class NodeOut(BaseModel):
    """A node; ``degree`` counts its edges in the whole library."""

    id: str
    kind: str
    label: str
    short: str
    href: str
    degree: int

    @classmethod
    def of(cls, node: Node) -> NodeOut:
        """Write a node's key as text."""
        return cls(
            id=str(node.key),
            kind=node.key.kind,
            label=node.label,
            short=node.short,
            href=node.href,
            degree=node.degree,
        )


class EdgeOut(BaseModel):
    """An edge, in the direction in which its name is read."""

    source: str
    relation: str
    target: str

    @classmethod
    def of(cls, edge: Edge) -> EdgeOut:
        """Write an edge's ends as text."""
        return cls(source=str(edge.source), relation=edge.relation, target=str(edge.target))


class SliceOut(BaseModel):
    """A slice; ``left_out`` counts neighbours that had no place, by kind."""

    centre: str
    nodes: list[NodeOut]
    edges: list[EdgeOut]
    walked: list[str]
    left_out: dict[str, int]


class RouteOut(BaseModel):
    """A path. Without nodes, ``exhausted`` says whether there is certainly none."""

    nodes: list[NodeOut]
    edges: list[EdgeOut]
    visited: int
    exhausted: bool
    sentence: str


class FoundOut(BaseModel):
    """Nodes by name."""

    items: list[NodeOut]
    total: int


@router.get("", response_model=SliceOut)
def read_slice(
    db: ReadSession,
    node: NodeName,
    depth: Annotated[int, Query(ge=1, le=2)] = 1,
    kinds: Kinds = ALL,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
    expanded: Annotated[Clean, Query(max_length=900, description="Nodes, by commas.")] = "",
) -> Any:
    """Return what lies around a node."""
    found = research_map.explore(db, Key.parse(node), depth, split(kinds), limit, keys(expanded))
    return SliceOut(
        centre=str(found.centre),
        nodes=[NodeOut.of(node) for node in found.nodes],
        edges=[EdgeOut.of(edge) for edge in found.edges],
        walked=sorted(map(str, found.walked)),
        left_out=found.left_out,
    )


@router.get("/search", response_model=FoundOut)
def find_nodes(
    db: ReadSession,
    q: Annotated[Clean, Query(max_length=200)],
    kinds: Kinds = ALL,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Any:
    """Return nodes whose names hold every word of the query."""
    found = research_map.search(db, q, split(kinds), limit)
    return FoundOut(items=[NodeOut.of(node) for node in found], total=len(found))


@router.get("/path", response_model=RouteOut)
def find_path(
    db: ReadSession,
    source: Annotated[NodeName, Query(alias="from")],
    target: Annotated[NodeName, Query(alias="to")],
    kinds: Kinds = ALL,
) -> Any:
    """Return a shortest path between two nodes, through nodes of the given kinds."""
    route = research_map.shortest_path(db, Key.parse(source), Key.parse(target), split(kinds))
    return RouteOut(
        nodes=[NodeOut.of(node) for node in route.nodes],
        edges=[EdgeOut.of(edge) for edge in route.edges],
        visited=route.visited,
        exhausted=route.exhausted,
        sentence=route.sentence,
    )


def split(text: str) -> tuple[str, ...]:
    """Read a list with commas, each thing once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def keys(text: str) -> tuple[Key, ...]:
    """Read nodes with commas."""
    return tuple(Key.parse(part) for part in split(text))
