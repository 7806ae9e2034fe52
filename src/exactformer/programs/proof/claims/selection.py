"""Which positions may and must be selected, from the values that keys and queries can have.

A position may be selected where some value of its key meets some value of the query in an accepted
pair, and must be where all pairs are accepted. A position seen from itself has key and query at once:
where both are functions of one root, only pairs of one value of the root occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from exactformer.programs.program import AndNode, NotNode, OrNode
from exactformer.programs.proof.facts import Facts
from exactformer.programs.witness import Flags, Literal

May = tuple[Flags, Flags]
"""(queries, keys): which may and which must be selected."""


class Selections:
    """Selections of the selectors of a program, from claims about the nodes that they compare."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._sets: dict[Literal, tuple[Flags, Flags, Flags, Flags]] = {}

    def of_selector(self, selector: int) -> Iterator[tuple[slice, Flags, Flags]]:
        """Yield the cells of every length, with what may and must be selected there."""
        for _, cells in self.facts.lengths():
            yield cells, *self._seen(self._selector(selector, cells))

    def of_term(self, literals: Sequence[Literal]) -> Iterator[tuple[slice, Flags, Flags]]:
        """Yield the same for a conjunction of literals."""
        for _, cells in self.facts.lengths():
            size = cells.stop - cells.start
            both = np.ones((2, size, size), bool)
            for literal in literals:
                both &= np.stack(self._literal(literal, cells))
            yield cells, *self._seen((both[0], both[1]))

    def _seen(self, both: May) -> May:
        if not self.facts.program.causal:
            return both
        before = np.tri(len(both[0]), dtype=bool)
        return both[0] & before, both[1] & before

    def _selector(self, selector: int, cells: slice) -> May:
        node = self.facts.selectors[selector]
        if isinstance(node, NotNode):
            may, must = self._selector(node.inner, cells)
            return ~must, ~may
        if isinstance(node, AndNode | OrNode):
            (a, b), (c, d) = (self._selector(part, cells) for part in (node.first, node.second))
            return (a & c, b & d) if isinstance(node, AndNode) else (a | c, b | d)
        return self._literal(Literal(selector, False), cells)

    def _literal(self, literal: Literal, cells: slice) -> May:
        if literal not in self._sets:
            self._sets[literal] = self._of_sets(literal)
        may, must, own_may, own_must = self._sets[literal]
        of_key, of_query = self.facts.roots(literal)
        keys, queries = (self.facts.known[root].cells[cells] for root in (of_key, of_query))
        here = np.ix_(queries, keys)
        found = may[here], must[here]
        if of_key == of_query:
            np.fill_diagonal(found[0], own_may[keys])
            np.fill_diagonal(found[1], own_must[keys])
        return found

    def _of_sets(self, literal: Literal) -> tuple[Flags, Flags, Flags, Flags]:
        """Return may and must for pairs of sets of the roots, and for one set seen from itself."""
        of_key, of_query = self.facts.roots(literal)
        accepts = self.facts.accepted(literal)
        keys, queries = self.facts.known[of_key].sets, self.facts.known[of_query].sets
        met = queries.astype(float) @ accepts.T.astype(float) @ keys.T.astype(float)
        pairs = np.outer(queries.sum(1), keys.sum(1))
        if of_key != of_query:
            return met > 0, met == pairs, np.zeros(0, bool), np.zeros(0, bool)
        own = accepts.diagonal()
        some: Flags = np.any(keys & own, axis=1)
        other: Flags = np.any(keys & ~own, axis=1)
        return met > 0, met == pairs, some, ~other
