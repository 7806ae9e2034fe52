"""The edges of the map, each read off a table in both directions.

    person --wrote--> paper --cites--> paper
    person --works-at--> institution
    paper --about--> topic
    paper --claims--> claim

Every direction has an index that begins with the column asked for, so that the neighbours of a few
nodes cost what there is of them, not the size of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, func, select
from sqlalchemy.orm import Session

from exactformer.studio.errors import InvalidError
from exactformer.studio.library.tables import Affiliation, Authorship, Citation, Claim, PaperTopic
from exactformer.studio.storage.slices import chunks

KINDS = ("paper", "person", "institution", "topic", "claim")
BATCH = 1000
"""So many nodes are named in one query."""

LARGEST_ID = 2**31 - 1

Column = Any  # a column as a class of a table has it, which is no int


class Key(NamedTuple):
    """A node's name, written ``paper:12``."""

    kind: str
    id: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read ``paper:12``."""
        kind, _, number = text.partition(":")
        if kind in KINDS and number.isascii() and number.isdigit() and len(number) <= 10:
            identifier = int(number)
            if 1 <= identifier <= LARGEST_ID:
                return cls(kind, identifier)
        kinds = ", ".join(KINDS)
        raise InvalidError(
            f"{text[:40]!r} is no node of the map: a kind ({kinds}) and a number, as in paper:12"
        )


class Edge(NamedTuple):
    """An edge, in the direction in which its name is read: the person *wrote* the paper."""

    source: Key
    relation: str
    target: Key


@dataclass(frozen=True)
class Relation:
    """A kind of edge. ``repeats``: the table may hold the same pair more than once."""

    name: str
    source: str
    target: str
    source_column: Column
    target_column: Column
    repeats: bool = False

    def pairs(self, *columns: Any) -> Select[Any]:
        """Select columns from the table (or tables) of this relation."""
        chosen = select(*columns)
        if self.name == "works-at":
            same = and_(
                Affiliation.paper_id == Authorship.paper_id,
                Affiliation.position == Authorship.position,
            )
            chosen = chosen.select_from(Authorship).join(Affiliation, same)
        return chosen


RELATIONS = (
    Relation("cites", "paper", "paper", Citation.citing_id, Citation.cited_id),
    Relation("wrote", "person", "paper", Authorship.person_id, Authorship.paper_id, True),
    Relation(
        "works-at",
        "person",
        "institution",
        Authorship.person_id,
        Affiliation.institution_id,
        True,
    ),
    Relation("about", "paper", "topic", PaperTopic.paper_id, PaperTopic.topic_id),
    Relation("claims", "paper", "claim", Claim.paper_id, Claim.id),
)


@dataclass(frozen=True)
class Step:
    """A relation walked in one direction: from nodes of a kind to their neighbours of another."""

    relation: Relation
    forwards: bool

    @property
    def origin(self) -> str:
        """The kind it starts from."""
        return self.relation.source if self.forwards else self.relation.target

    @property
    def goal(self) -> str:
        """The kind it leads to."""
        return self.relation.target if self.forwards else self.relation.source

    @property
    def near(self) -> Column:
        """The column of the nodes it starts from."""
        relation = self.relation
        return relation.source_column if self.forwards else relation.target_column

    @property
    def far(self) -> Column:
        """The column of their neighbours."""
        relation = self.relation
        return relation.target_column if self.forwards else relation.source_column


STEPS = tuple(Step(relation, forwards) for relation in RELATIONS for forwards in (True, False))


def by_kind(keys: Iterable[Key]) -> dict[str, list[int]]:
    """Sort nodes by kind."""
    sorted_: dict[str, list[int]] = defaultdict(list)
    for key in keys:
        sorted_[key.kind].append(key.id)
    return sorted_


def degrees(db: Session, keys: Iterable[Key]) -> dict[Key, int]:
    """Count the edges of nodes; one cited both ways has two to the same paper."""
    found = dict.fromkeys(keys, 0)
    sorted_ = by_kind(found)
    for step in STEPS:
        counted = func.count(step.far.distinct()) if step.relation.repeats else func.count()
        for ids in chunks(sorted_.get(step.origin, ()), BATCH):
            chosen = step.relation.pairs(step.near, counted).where(step.near.in_(ids))
            for identifier, number in db.execute(chosen.group_by(step.near)):
                found[Key(step.origin, identifier)] += number
    return found


def edges_among(db: Session, keys: Collection[Key]) -> list[Edge]:
    """Return all edges whose ends are both among some nodes, in a fixed order."""
    sorted_ = by_kind(keys)
    found: set[Edge] = set()
    for relation in RELATIONS:
        targets = sorted_.get(relation.target, ())
        for ids in chunks(sorted_.get(relation.source, ()) if targets else (), BATCH):
            columns = (relation.source_column, relation.target_column)
            chosen = relation.pairs(*columns).where(
                relation.source_column.in_(ids), relation.target_column.in_(targets)
            )
            found.update(
                Edge(Key(relation.source, a), relation.name, Key(relation.target, b))
                for a, b in db.execute(chosen)
            )
    return sorted(found)
