"""What aggregates can be: the value that selected positions share, or one of all their means."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from exactformer.programs.knowledge import AmbiguityError
from exactformer.programs.program import AggregateNode, SelectNode, WidthNode
from exactformer.programs.sets import all_means, is_strict_chain
from exactformer.programs.values import in_order, is_number
from exactformer.programs.witness import AggregateClaim, Flags, Literal, NodeClaim, Shared

if TYPE_CHECKING:
    from exactformer.programs.analysis import Analysis


def sharing(analysis: Analysis, node: AggregateNode) -> AggregateClaim:
    """Return why all positions that an aggregate selects have the same value, on every input, if so."""
    key = ("sharing", node.selector, node.values)
    if key not in analysis.memory:
        analysis.memory[key] = _sharing(analysis, node)
    found: AggregateClaim = analysis.memory[key]
    return found


def _sharing(analysis: Analysis, node: AggregateNode) -> AggregateClaim:
    values = analysis.known[node.values]
    if len(values.universe) == 1:
        return AggregateClaim(Shared.CONSTANT)
    if int(analysis.widths(node.selector)[1].max()) <= 1:
        return AggregateClaim(Shared.SINGLE)
    for literal in analysis.conjunction(node.selector) or []:
        if _fixes(analysis, literal, values):
            return AggregateClaim(Shared.FIXED, literal)
        if _ranks(analysis, literal, values):
            return AggregateClaim(Shared.RANKED, literal)
    return AggregateClaim(Shared.MEAN)


def is_uniform(analysis: Analysis, node: AggregateNode) -> bool:
    """Whether all positions that an aggregate selects have the same value, on every input."""
    return sharing(analysis, node).shared is not Shared.MEAN


def _fixes(analysis: Analysis, literal: Literal, values: NodeClaim) -> bool:
    """Whether every query accepts keys with one value only, the value being a function of them."""
    k, _ = analysis.roots(literal)
    if k != values.root:
        return False
    accepts = analysis.accepted(literal)
    met = np.zeros((len(values.universe), accepts.shape[1]), bool)
    for at, row in zip(values.image, accepts, strict=True):
        met[at] |= row
    return bool((met.sum(0) <= 1).all())


def _ranks(analysis: Analysis, literal: Literal, values: NodeClaim) -> bool:
    """Whether every query accepts one key only, a rank by the root of the values.

    Positions where the root differs have different ranks, so those of one rank share the root.
    """
    node = analysis.selectors[literal.select]
    assert isinstance(node, SelectNode)
    key, rank = analysis.known[node.keys], analysis.nodes[analysis.known[node.keys].root]
    accepts = analysis.predicate(literal.select) != literal.negated
    if not isinstance(rank, WidthNode) or analysis.causal or (accepts.sum(0) > 1).any():
        return False
    if len(np.unique(key.image)) < len(key.image):
        return False
    literals = analysis.conjunction(rank.selector) or []
    if not literals or any(analysis.roots(own) != (values.root, values.root) for own in literals):
        return False
    return is_strict_chain(np.logical_and.reduce([analysis.accepted(own).T for own in literals]))


def aggregated(analysis: Analysis, node: AggregateNode, name: str) -> NodeClaim:
    """Return what is known of an aggregate; raise where it has neither a shared value nor a mean."""
    if is_uniform(analysis, node):
        return _moved(analysis, node)
    values = analysis.known[node.values]
    if strange := [v for v in values.universe if not is_number(v)]:
        raise AmbiguityError(
            f"{name} cannot be shown to select one position, or equal values, and "
            f"{strange[0]!r} has no mean"
        )
    return _mean(analysis, node, name)


def _moved(analysis: Analysis, node: AggregateNode) -> NodeClaim:
    values, (low, _) = analysis.known[node.values], analysis.widths(node.selector)
    default = analysis.value(node.default)
    universe = list(values.universe)
    if int(low.min()) == 0 and default not in universe:
        universe = in_order([*universe, default])
    at = [universe.index(v) for v in values.universe]
    sets = np.zeros((len(analysis.positions), len(universe)), bool)
    weights = values.sets.astype(np.float32)
    for cells, may, _ in analysis.blocks(node.selector):
        found = may.astype(np.float32) @ weights[values.cells[cells]] > 0
        block = np.zeros((found.shape[0], len(universe)), bool)
        block[:, at] = found
        sets[cells] = block
    if int(low.min()) == 0:
        sets[low == 0, universe.index(default)] = True
    kept: Flags = np.asarray(sets.any(0))
    return analysis.rooted(
        [v for v, k in zip(universe, kept, strict=True) if k],
        sets[:, kept],
        np.arange(len(analysis.positions)),
    )


def _mean(analysis: Analysis, node: AggregateNode, name: str) -> NodeClaim:
    values, (low, high) = analysis.known[node.values], analysis.widths(node.selector)
    numbers = [Fraction(v) for v in values.universe]
    scale = lcm(*(v.denominator for v in numbers))
    whole = [int(v * scale) for v in numbers]
    members = [[whole[k] for k in np.flatnonzero(row)] for row in values.sets]
    count = len(members)
    which = np.zeros((len(analysis.positions), 2 * count + 2), np.int64)
    one_hot = np.eye(count, dtype=np.int64)
    for cells, may, must in analysis.blocks(node.selector):
        of = one_hot[values.cells[cells]]
        which[cells, :count] = must.astype(np.int64) @ of
        which[cells, count : 2 * count] = (may & ~must).astype(np.int64) @ of
    which[:, -2], which[:, -1] = low, high
    different, back = np.unique(which, axis=0, return_inverse=True)
    default = analysis.value(node.default)
    found = []
    for row in different.tolist():
        means = all_means(members, row, scale, name)
        found.append(means | {default} if row[-2] == 0 else means)
    universe = in_order(value for means in found for value in means)
    place = {value: k for k, value in enumerate(universe)}
    sets = np.zeros((len(found), len(universe)), bool)
    for k, means in enumerate(found):
        sets[k, [place[value] for value in means]] = True
    return analysis.rooted(universe, sets, back.ravel())
