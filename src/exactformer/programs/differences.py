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
from exactformer.programs.selectors import Literal, selects_of
from exactformer.programs.sets import Flags, Integers, is_strict_chain
from exactformer.programs.values import Value

if TYPE_CHECKING:
    from exactformer.programs.analysis import Analysis


def injective(analysis: Analysis, nodes: tuple[int, ...]) -> bool:
    """Whether any two positions of an input differ in one of the nodes' values."""
    key = ("injective", nodes)
    if key not in analysis.memory:
        analysis.memory[key] = False  # what a definition by itself would have to be
        analysis.memory[key] = any(_is_injective(analysis, node) for node in nodes) or any(
            _is_rank(analysis, node, tuple(o for o in nodes if o != node)) for node in nodes
        )
    return bool(analysis.memory[key])


def _is_injective(analysis: Analysis, number: int) -> bool:
    known, node = analysis.known[number], analysis.nodes[number]
    if known.root != number:
        return len(np.unique(known.image)) == len(known.image) and injective(
            analysis, (known.root,)
        )
    if isinstance(node, IndicesNode):
        return True
    if isinstance(node, PairNode | LinearNode):
        outputs = analysis.outputs_of_pairs(node, analysis.names[number])
        for side, part in enumerate((node.first, node.second)):
            if not injective(analysis, (part,)):
                continue
            seen: dict[Value, int] = {}
            if all(seen.setdefault(v, pair[side]) == pair[side] for pair, v in outputs.items()):
                return True
    return False


def _is_rank(analysis: Analysis, number: int, others: tuple[int, ...]) -> bool:
    """Whether a width orders the positions on which the other nodes agree.

    What two such positions select is nested, and the larger selection has one of the two that the
    smaller has not. Then the widths differ.
    """
    node = analysis.nodes[number]
    if not isinstance(node, WidthNode):
        return False
    selects = selects_of(analysis.selectors, node.selector)
    bases = {root for select in selects for root in analysis.roots(Literal(select, False))}
    if analysis.causal:
        indices = next(
            (k for k, n in enumerate(analysis.nodes) if isinstance(n, IndicesNode)), None
        )
        if indices is None:
            return False
        bases.add(indices)
    tied = sorted(base for base in bases if any(_determines(analysis, o, base) for o in others))
    free = sorted(bases - set(tied))
    if not any(injective(analysis, (base,)) for base in free):
        return False
    if (separate := _separate(analysis, node.selector, tied)) is not None:
        return separate
    sizes = {base: len(analysis.universe(base)) for base in bases}
    queries = int(np.prod([sizes[b] for b in free], dtype=float))
    keys = int(np.prod([sizes[b] for b in bases], dtype=float))
    if queries * keys > MOST_PAIRS or keys > 2**20:
        return False
    order = [*tied, *free]
    tuples = np.stack([axis.ravel() for axis in np.indices([sizes[b] for b in order])], axis=1)
    place = {base: k for k, base in enumerate(order)}
    return all(
        _is_chain(analysis, node.selector, place, tuples, start, queries, free)
        for start in range(0, keys, queries)
    )


def _separate(analysis: Analysis, selector: int, tied: list[int]) -> bool | None:
    """Whether a conjunction orders positions by one root alone; None where it is not that simple.

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
    return injective(analysis, (root,)) and is_strict_chain(rows)


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
    free: list[int],
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
    distinct = [place[base] for base in free if injective(analysis, (base,))]
    same = np.zeros(strict.shape, bool)
    for at in distinct:
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
