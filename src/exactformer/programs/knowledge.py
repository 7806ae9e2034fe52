"""What is known of one node of a program, and how much may be."""

from __future__ import annotations

from dataclasses import dataclass

from exactformer.errors import InputError
from exactformer.programs.sets import Flags, Integers
from exactformer.programs.values import Value

MOST_VALUES = 20_000
"""Values that one node may take."""
MOST_PAIRS = 60_000_000
"""Pairs of a key and a query that are compared for one selector."""


class AmbiguityError(InputError):
    """An aggregate would have to average things that have no mean."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of one node."""

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
