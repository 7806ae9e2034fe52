"""Cases: all values that several roots can have at one position, and what a node is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from exactformer.errors import CertificationError, SizeError
from exactformer.programs.program import LinearNode, PairNode, WidthNode
from exactformer.programs.proof.facts import Facts
from exactformer.programs.proof.state import Root, State
from exactformer.programs.witness import Integers

MOST_CASES = 4_000_000


@dataclass(frozen=True, eq=False)
class Cases:
    """One case per entry: the place of the value of every root, and that of the target."""

    columns: dict[Root, Integers]
    target: Integers

    def __len__(self) -> int:
        return len(self.target)


def cases_of(state: State, roots: Sequence[Root], node: int | None, term: int | None) -> Cases:
    """Return all cases of some roots, with the value of a node, or of a term of a width, in each.

    Cases that no input has may be among them, but none is missing. Where the roots do not determine
    the node, what else it depends on takes all its values too.
    """
    named = [root for root in roots if root is not None]
    if node is not None:
        named += _missing(state.facts, set(named), node, term)
    sizes = [state.values(root) for root in named]
    if prod(sizes) > MOST_CASES:
        raise SizeError(
            f"a step reads {prod(sizes):,} combinations of values; the limit is {MOST_CASES:,}"
        )
    grid = np.indices(sizes).reshape(len(sizes), -1) if named else np.zeros((0, 1), np.int64)
    columns: dict[Root, Integers] = dict(zip(named, grid, strict=True))
    kept = np.ones(grid.shape[1], bool)
    for a, b in combinations(named, 2):
        if a[1] is None and b[1] is None:
            kept &= state.facts.joint(a[0], b[0])[columns[a], columns[b]]
    target = np.zeros(grid.shape[1], np.int64)
    if node is not None:
        target = _place(state.facts, columns, node, term, grid.shape[1])
        kept &= target >= 0
    return Cases({root: c[kept] for root, c in columns.items()}, target[kept])


def _missing(
    facts: Facts, have: set[Root], number: int, term: int | None
) -> list[tuple[int, int | None]]:
    """Return roots that, with those there are, determine a node, or a term of a width."""
    known = facts.known[number]
    root, node = known.root, facts.nodes[known.root]
    if _is_part(facts, number, term):
        return [] if (number, term) in have else [(number, term)]
    if (root, None) in have or len(known.universe) == 1:
        return []
    if isinstance(node, PairNode | LinearNode):
        parts = [_missing(facts, have, part, None) for part in (node.first, node.second)]
        return list(dict.fromkeys([*parts[0], *parts[1]]))
    if isinstance(node, WidthNode):
        terms = range(len(facts.terms(node.selector)))
        several = [k for k in terms if len(facts.term_widths(node.selector, k)) > 1]
        if any((root, k) in have for k in several):
            return [(root, k) for k in several if (root, k) not in have]
    return [(root, None)]


def _is_part(facts: Facts, number: int, term: int | None) -> bool:
    """Whether this is one of several terms of a width, which the width does not determine."""
    node = facts.nodes[number]
    return term is not None and isinstance(node, WidthNode) and len(facts.terms(node.selector)) > 1


def _place(
    facts: Facts, columns: dict[Root, Integers], number: int, term: int | None, size: int
) -> Integers:
    """Return the place of a node's value in every case; −1 where it cannot occur."""
    known = facts.known[number]
    root, node = known.root, facts.nodes[known.root]
    if _is_part(facts, number, term):
        return columns[number, term]
    if (root, None) in columns:
        return known.image[columns[root, None]]
    if len(known.universe) == 1:
        return np.zeros(size, np.int64)
    if isinstance(node, PairNode | LinearNode):
        first = _place(facts, columns, node.first, None, size)
        second = _place(facts, columns, node.second, None, size)
        found = np.where((first >= 0) & (second >= 0), facts.table(root)[first, second], -1)
        return np.where(found >= 0, known.image[found], -1)
    if isinstance(node, WidthNode):
        total = np.zeros(size, np.int64)
        for k in range(len(facts.terms(node.selector))):
            widths = np.array(facts.term_widths(node.selector, k))
            if (root, k) not in columns and len(widths) > 1:
                break
            total = total + (widths[columns[root, k]] if (root, k) in columns else widths[0])
        else:
            universe = facts.universe(root)
            inside = (total >= universe[0]) & (total <= universe[-1])
            return np.where(inside, known.image[np.where(inside, total - universe[0], 0)], -1)
    raise CertificationError(
        f"{facts.names[number]} is not a function of what the layer reads to compute it"
    )
