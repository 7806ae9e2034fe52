"""Rules for claims that two positions of an input differ in the value of a node.

*Order and chain.* A width counts what its selector selects. Take two positions that agree on some
nodes, hence on the *tied* roots that these determine. If the selections of any two such positions
are nested, as sets of values of what the selector reads, and the larger has one of the two
positions, which the smaller has not, then the widths differ. By *order* this is seen in one root:
all other literals accept the two positions alike, and accept both. By *chain* it is seen in the
table of all values of all roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from exactformer.errors import SizeError
from exactformer.programs.program import (
    AndNode,
    IndicesNode,
    LinearNode,
    NotNode,
    OrNode,
    PairNode,
    SelectNode,
    WidthNode,
)
from exactformer.programs.proof.facts import MOST_PAIRS, Facts, UnprovenError
from exactformer.programs.witness import Apart, Flags, Integers, Literal

POSITION = -1
"""In place of the number of a root that is the position."""


def check_difference(facts: Facts, nodes: tuple[int, ...]) -> None:
    """Raise unless any two positions of an input differ in one of some nodes, by the claim's reason.

    Reasons refer to earlier nodes only, so that they end.
    """
    if nodes in facts.apart:
        return
    claim = facts.witness.differences.get(nodes)
    if claim is None or claim.node not in nodes:
        raise _unproven(facts, nodes, "no reason is claimed for its differing between positions")
    node, known = facts.nodes[claim.node], facts.known[claim.node]
    if claim.apart is Apart.INDEX:
        holds = isinstance(node, IndicesNode) and not claim.through
    elif claim.apart is Apart.FUNCTION:
        holds = claim.through == (known.root,) and known.root < claim.node
        holds = holds and _is_one_to_one(known.image)
    elif claim.apart is Apart.PART:
        holds = isinstance(node, PairNode | LinearNode) and len(claim.through) == 1
        holds = holds and _determines_part(facts, claim.node, claim.through[0])
    else:
        others = tuple(other for other in nodes if other != claim.node)
        holds = isinstance(node, WidthNode) and _Order(facts, claim.node, others).holds(
            claim.through, claim.apart is Apart.CHAIN
        )
    if not holds:
        raise _unproven(facts, nodes, f"its positions do not differ by reason of {claim.apart}")
    for root in claim.through:
        if not isinstance(facts.nodes[root], IndicesNode):
            check_difference(facts, (root,))
    facts.apart.add(nodes)


def _unproven(facts: Facts, nodes: tuple[int, ...], why: str) -> UnprovenError:
    return UnprovenError("differences", ", ".join(facts.names[node] for node in nodes), why)


def _is_one_to_one(image: Integers) -> bool:
    return len(set(image.tolist())) == len(image)


def _determines_part(facts: Facts, number: int, part: int) -> bool:
    """Whether values of a pair or a linear map are never the same for two values of a part."""
    node = facts.nodes[number]
    assert isinstance(node, PairNode | LinearNode)
    if part not in (node.first, node.second):
        return False
    side = int(part != node.first)
    seen: dict[object, int] = {}
    for pair, value in facts.outputs(number).items():
        if seen.setdefault(value, pair[side]) != pair[side]:
            return False
    return True


class _Order:
    """A width whose selector orders the positions that agree on other nodes."""

    def __init__(self, facts: Facts, number: int, others: Sequence[int]) -> None:
        node = facts.nodes[number]
        assert isinstance(node, WidthNode)
        self.facts, self.selector, self.number = facts, node.selector, number
        self.roots = set(self._read(node.selector))
        if facts.program.causal:
            self.roots.add(POSITION)
        determined = {
            self._named(facts.known[other].root)
            for other in others
            if _is_one_to_one(facts.known[other].image)
        }
        self.tied = sorted(self.roots & determined)
        self.free = sorted(self.roots - determined)

    def holds(self, through: tuple[int, ...], chain: bool) -> bool:
        """Whether the width orders them, given free roots in which any two positions differ."""
        through = tuple(map(self._named, through))
        if not through or not set(through) <= set(self.free):
            return False
        return self._by_chain(through) if chain else self._by_one_root(through)

    def _named(self, root: int) -> int:
        return POSITION if isinstance(self.facts.nodes[root], IndicesNode) else root

    def _read(self, selector: int) -> list[int]:
        """Return the roots of keys and queries that a selector reads."""
        node = self.facts.selectors[selector]
        if isinstance(node, SelectNode):
            return [self._named(root) for root in self.facts.roots(Literal(selector, False))]
        if isinstance(node, NotNode):
            return self._read(node.inner)
        return [*self._read(node.first), *self._read(node.second)]

    def _by_one_root(self, through: tuple[int, ...]) -> bool:
        literals = self.facts.conjunction(self.selector)
        if literals is None or len(through) != 1:
            return False
        rows: Flags | None = None  # queries × keys of the one root
        if self.facts.program.causal and through == (POSITION,):
            rows = np.tri(self.facts.max_length, dtype=bool)
        elif self.facts.program.causal and POSITION in self.free:
            return False
        for literal in literals:
            key, query = map(self._named, self.facts.roots(literal))
            accepts = self.facts.accepted(literal).T
            if key != query or key not in (*self.tied, *through):
                return False
            if key in self.tied:
                if not accepts.diagonal().all():
                    return False
            else:
                rows = accepts if rows is None else rows & accepts
        return rows is not None and is_chain(rows, np.arange(len(rows)))

    def _by_chain(self, through: tuple[int, ...]) -> bool:
        order = [*self.tied, *self.free]
        sizes = [self._size(root) for root in order]
        keys, queries = prod(sizes), prod(sizes[len(self.tied) :])
        if keys * queries > MOST_PAIRS:
            raise SizeError(
                f"{self.facts.names[self.number]}: {queries:,} × {keys:,} selections; the limit is "
                f"{MOST_PAIRS:,}"
            )
        values = dict(zip(order, np.indices(sizes).reshape(len(sizes), -1), strict=True))
        for start in range(0, keys, queries):  # all that agree on the tied roots
            own = np.arange(start, start + queries)
            rows = self._selected(self.selector, values, own)
            if self.facts.program.causal:
                rows = rows & (values[POSITION][None, :] <= values[POSITION][own, None])
            same = np.zeros((queries, queries), bool)
            for root in through:
                same |= values[root][own, None] == values[root][None, own]
            if not is_chain(rows, own, same):
                return False
        return True

    def _size(self, root: int) -> int:
        return self.facts.max_length if root == POSITION else len(self.facts.universe(root))

    def _selected(self, selector: int, values: dict[int, Integers], own: Integers) -> Flags:
        """Return (queries, keys): what a selector accepts of all keys, given values of the roots."""
        node = self.facts.selectors[selector]
        if isinstance(node, NotNode):
            return ~self._selected(node.inner, values, own)
        if isinstance(node, AndNode | OrNode):
            first, second = (self._selected(p, values, own) for p in (node.first, node.second))
            return first & second if isinstance(node, AndNode) else first | second
        literal = Literal(selector, False)
        key, query = map(self._named, self.facts.roots(literal))
        return self.facts.accepted(literal).T[np.ix_(values[query][own], values[key])]


def is_chain(rows: Flags, own: Integers, same: Flags | None = None) -> bool:
    """Whether selections are nested, the larger of two with one of both that the smaller has not.

    Row k is what k selects, which as a key is column ``own[k]``; pairs that are ``same`` do not occur.
    """
    order = np.argsort(rows.sum(1), kind="stable")
    rows, own = rows[order], own[order]
    if (rows[:-1] > rows[1:]).any():
        return False
    here = rows[:, own]  # who selects whom
    itself = here.diagonal()
    # For a before b: b selects a, which does not select itself, or itself, which a does not select.
    apart = (here.T & ~itself[:, None]) | (~here & itself[None, :])
    if same is not None:
        apart |= same[np.ix_(order, order)]
    return bool(apart[np.triu_indices(len(rows), 1)].all())
