"""The witness of a program: what is claimed of its nodes and selectors before anything is proven.

A search finds it (:mod:`exactformer.programs.finding`), and nobody believes it: the proof checks
every claim from the claims about its parts (:mod:`exactformer.programs.proof.claims`).

A *cell* is a length and a position; in causal programs it is a position alone, since nothing depends
on what comes later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from exactformer.programs.values import Value

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Literal:
    """A select, or its negation."""

    select: int
    negated: bool


@dataclass(frozen=True, eq=False)
class NodeClaim:
    """The values that one node can have."""

    universe: tuple[Value, ...]
    """All values anywhere, in order."""
    root: int
    """The node that it is a function of; itself where there is none."""
    image: Integers
    """For every value of the root, the place of the node's value in the universe."""
    sets: Flags
    """(sets, values): the different sets that occur."""
    cells: Integers
    """For every cell, the number of its set."""


@dataclass(frozen=True, eq=False)
class TermClaim:
    """A conjunction of literals, and bounds, for every cell, of how many positions it selects."""

    literals: tuple[Literal, ...]
    low: Integers
    high: Integers


@dataclass(frozen=True, eq=False)
class SelectorClaim:
    """Terms of which a selector is the disjoint union, and bounds of how many positions it selects."""

    terms: tuple[TermClaim, ...]
    low: Integers
    high: Integers


class Shared(StrEnum):
    """Why all positions that an aggregate selects have one value; ``MEAN`` where they need not."""

    MEAN = "mean"
    CONSTANT = "constant"
    """The values are the same everywhere."""
    SINGLE = "single"
    """No more than one position is selected."""
    FIXED = "fixed"
    """A literal fixes the value: of all keys that a query accepts it is the same."""
    RANKED = "ranked"
    """A literal accepts one rank, and positions of one rank have the same value."""


@dataclass(frozen=True)
class AggregateClaim:
    """What an aggregate finds; ``literal`` is the one that the reason names."""

    shared: Shared
    literal: Literal | None = None


class Apart(StrEnum):
    """Why two positions of an input differ in a node's value."""

    INDEX = "index"
    """It is the position."""
    FUNCTION = "function"
    """It is a one-to-one function of its root, in which they differ."""
    PART = "part"
    """It determines a part, in which they differ."""
    ORDER = "order"
    """It counts what lies before a position, in the order of one root in which they differ."""
    CHAIN = "chain"
    """It counts selections that are nested, the larger with a position that the smaller has not."""


@dataclass(frozen=True)
class DifferenceClaim:
    """Why two positions differ in one of several nodes, namely in ``node`` if in no other."""

    node: int
    apart: Apart
    through: tuple[int, ...] = ()
    """The nodes in which they differ, on which the reason rests."""


@dataclass(frozen=True, eq=False)
class Witness:
    """All claims about a program."""

    nodes: tuple[NodeClaim, ...]
    selectors: Mapping[int, SelectorClaim]
    """Of every selector that an aggregate or a width names."""
    aggregates: Mapping[int, AggregateClaim]
    """By node."""
    differences: Mapping[tuple[int, ...], DifferenceClaim]
    """By the nodes of which any two positions differ in one."""
