"""Values that differ between positions: injective nodes, and widths that rank what is equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.programs.knowledge import MOST_PAIRS
from exactformer.programs.program import (
    AndNode,
    IndicesNode,
    LinearNode,
    NotNode,
    OrNode,
    PairNode,
    WidthNode,
)
from exactformer.programs.selectors import selects_of
from exactformer.programs.sets import is_strict_chain
from exactformer.programs.values import Value
from exactformer.programs.witness import Apart, DifferenceClaim, Flags, Integers, Literal

if TYPE_CHECKING:
    from exactformer.programs.analysis import Analysis


def injective(analysis: Analysis, nodes: tuple[int, ...]) -> bool:
    """Whether any two positions of an input differ in one of the nodes' values."""
    if nodes not in analysis.differences:
        analysis.differences[nodes] = None  # what a definition by itself would have to be
        analysis.differences[nodes] = _difference(analysis, nodes)
    return analysis.differences[nodes] is not None


def _difference(analysis: Analysis, nodes: tuple[int, ...]) -> DifferenceClaim | None:
    for node in nodes:
        if found := _alone(analysis, node):
            return found
    for node in nodes:
        if found := _rank(analysis, node, tuple(other for other in nodes if other != node)):
            return found
    return None


def _alone(analysis: Analysis, number: int) -> DifferenceClaim | None:
    """Return why any two positions differ in a node, if they do whatever the others are."""
    known, node = analysis.known[number], analysis.nodes[number]
    if known.root != number:
        if len(np.unique(known.image)) == len(known.image) and injective(analysis, (known.root,)):
            return DifferenceClaim(number, Apart.FUNCTION, (known.root,))
        return None
    if isinstance(node, IndicesNode):
        return DifferenceClaim(number, Apart.INDEX)
    if isinstance(node, PairNode | LinearNode):
        outputs = analysis.outputs_of_pairs(node, analysis.names[number])
        for side, part in enumerate((node.first, node.second)):
            if not injective(analysis, (part,)):
                continue
            seen: dict[Value, int] = {}
            if all(seen.setdefault(v, pair[side]) == pair[side] for pair, v in outputs.items()):
                return DifferenceClaim(number, Apart.PART, (part,))
    return None


def _rank(analysis: Analysis, number: int, others: tuple[int, ...]) -> DifferenceClaim | None:
    """Return why a width orders the positions on which the other nodes agree.

    What two such positions select is nested, and the larger selection has one of the two that the
    smaller has not. Then the widths differ.
    """
    node = analysis.nodes[number]
    if not isinstance(node, WidthNode):
        return None
    selects = selects_of(analysis.selectors, node.selector)
    bases = {root for select in selects for root in analysis.roots(Literal(select, False))}
    if analysis.causal:
        indices = next(
            (k for k, n in enumerate(analysis.nodes) if isinstance(n, IndicesNode)), None
        )
        if indices is None:
            return None
        bases.add(indices)
    tied = sorted(base for base in bases if any(_determines(analysis, o, base) for o in others))
    free = sorted(bases - set(tied))
    distinct = tuple(base for base in free if injective(analysis, (base,)))
    if not distinct:
        return None
    if (root := _separate(analysis, node.selector, tied)) is not None:
        return DifferenceClaim(number, Apart.ORDER, (root,)) if root in distinct else None
    sizes = {base: len(analysis.universe(base)) for base in bases}
    queries = int(np.prod([sizes[b] for b in free], dtype=float))
    keys = int(np.prod([sizes[b] for b in bases], dtype=float))
    if queries * keys > MOST_PAIRS or keys > 2**20:
        return None
    order = [*tied, *free]
    tuples = np.stack([axis.ravel() for axis in np.indices([sizes[b] for b in order])], axis=1)
    place = {base: k for k, base in enumerate(order)}
    if all(
        _is_chain(analysis, node.selector, place, tuples, start, queries, distinct)
        for start in range(0, keys, queries)
    ):
        return DifferenceClaim(number, Apart.CHAIN, distinct)
    return None


def _separate(analysis: Analysis, selector: int, tied: list[int]) -> int | None:
    """Return the one root by which a conjunction orders positions; None where it is not that simple.

    Where it would, and does not, the answer is −1.

    Literals of tied roots accept the same keys from both positions, and must accept the two
    positions themselves. The others must compare one root with itself.
    """
    literals = analysis.conjunction(selector)
    if literals is None:
        return None
    nested: dict[int, Flags] = {}
    for literal in literals:
        k, q = analysis.roots(literal)
        accepts = analysis.accepted(literal).T
        if k != q:
            return None
        if k in tied:
            if not np.diagonal(accepts).all():
                return None
            continue
        nested[k] = nested[k] & accepts if k in nested else accepts
    if analysis.causal:
        k = next(at for at, n in enumerate(analysis.nodes) if isinstance(n, IndicesNode))
        before = np.tri(analysis.max_length, dtype=bool)
        nested[k] = nested[k] & before if k in nested else before
    if len(nested) != 1:
        return None
    ((root, rows),) = nested.items()
    return root if injective(analysis, (root,)) and is_strict_chain(rows) else -1


def _determines(analysis: Analysis, node: int, base: int) -> bool:
    known = analysis.known[node]
    return known.root == base and len(np.unique(known.image)) == len(known.image)


def _is_chain(
    analysis: Analysis,
    selector: int,
    place: dict[int, int],
    tuples: Integers,
    start: int,
    size: int,
    distinct: tuple[int, ...],
) -> bool:
    """Whether selections of the queries that agree on the tied nodes are strictly nested."""
    own = tuples[start : start + size]
    rows = _accepts(analysis, selector, place, tuples, own).T  # queries × keys
    if analysis.causal:
        at = place[next(k for k, n in enumerate(analysis.nodes) if isinstance(n, IndicesNode))]
        rows = rows & (tuples[None, :, at] <= own[:, None, at])
    order = np.argsort(rows.sum(1), kind="stable")
    rows, own = rows[order], own[order]
    if any((rows[k] & ~rows[k + 1]).any() for k in range(len(rows) - 1)):
        return False
    here = rows[:, start : start + size][:, order]  # queries × the queries' own keys
    itself = np.diagonal(here)
    # For a before b: b selects a and a does not, or b selects b and a does not.
    strict = (here.T & ~itself[:, None]) | (itself[None, :] & ~here)
    same = np.zeros(strict.shape, bool)
    for at in (place[base] for base in distinct):
        same |= own[:, None, at] == own[None, :, at]
    later = np.triu(np.ones(strict.shape, bool), 1)
    return bool((strict | same | ~later).all())


def _accepts(
    analysis: Analysis, selector: int, place: dict[int, int], keys: Integers, queries: Integers
) -> Flags:
    """Return (keys, queries): what a selector accepts, given tuples of values of the roots."""
    node = analysis.selectors[selector]
    if isinstance(node, NotNode):
        return ~_accepts(analysis, node.inner, place, keys, queries)
    if isinstance(node, AndNode | OrNode):
        first = _accepts(analysis, node.first, place, keys, queries)
        second = _accepts(analysis, node.second, place, keys, queries)
        return first & second if isinstance(node, AndNode) else first | second
    literal = Literal(selector, False)
    k, q = analysis.roots(literal)
    return analysis.accepted(literal)[np.ix_(keys[:, place[k]], queries[:, place[q]])]
