"""Rules for claims about aggregates: one value of all that is selected, or every mean there can be."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from exactformer.errors import SizeError
from exactformer.programs.program import AggregateNode, WidthNode
from exactformer.programs.proof.claims.differences import is_chain
from exactformer.programs.proof.claims.selection import Selections
from exactformer.programs.proof.facts import Facts, UnprovenError
from exactformer.programs.values import Value, is_number
from exactformer.programs.witness import Flags, Integers, Literal, Shared

MOST_SUMS, MOST_STEPS = 2_000_000, 2**26
"""Sums that are followed for one mean, and how far apart they may lie, in their common steps."""

Sets = tuple[list[Value], Flags, Integers]
"""Values; sets of them; and the number of the set of every cell."""


def check_shared(facts: Facts, number: int, node: AggregateNode) -> None:
    """Raise unless all that an aggregate selects has one value, where that is claimed."""
    claim, name = facts.witness.aggregates.get(number), facts.names[number]
    if claim is None:
        raise UnprovenError("shared values", name, "nothing is claimed of it")
    values, high = facts.known[node.values], facts.witness.selectors[node.selector].high
    literals = facts.conjunction(node.selector) or []
    named = claim.literal is not None and claim.literal in literals
    holds = {
        Shared.MEAN: claim.literal is None,
        Shared.CONSTANT: claim.literal is None and len(values.universe) == 1,
        Shared.SINGLE: claim.literal is None and int(high.max()) <= 1,
        Shared.FIXED: named and _is_fixed(facts, claim.literal, node.values),
        Shared.RANKED: named and _is_ranked(facts, claim.literal, node.values),
    }
    if not holds.get(claim.shared):
        raise UnprovenError(
            "shared values", name, f"it does not find one value by reason of {claim.shared}"
        )


def _is_fixed(facts: Facts, literal: Literal | None, values: int) -> bool:
    """Whether each query accepts keys of one value only, which is a function of the keys' root."""
    assert literal is not None
    known = facts.known[values]
    if facts.roots(literal)[0] != known.root:
        return False
    accepts = facts.accepted(literal)
    met = [known.image[column] for column in accepts.T]
    return all(len(places) == 0 or places.min() == places.max() for places in met)


def _is_ranked(facts: Facts, literal: Literal | None, values: int) -> bool:
    """Whether each query accepts one key only, a rank of the root of the values.

    Positions whose roots differ have different ranks, so those of one rank share the root.
    """
    assert literal is not None
    key, root = facts.known[facts.select(literal.select).keys], facts.known[values].root
    rank = facts.nodes[key.root]
    if not isinstance(rank, WidthNode) or facts.program.causal:
        return False
    one_to_one = len(set(key.image.tolist())) == len(key.image)
    if not one_to_one or int(facts.predicate(literal).sum(0).max(initial=0)) > 1:
        return False
    orders = facts.conjunction(rank.selector) or []
    if not orders or any(facts.roots(order) != (root, root) for order in orders):
        return False
    rows = np.logical_and.reduce([facts.accepted(order).T for order in orders])
    return is_chain(rows, np.arange(len(rows)))


def shared_values(facts: Facts, selections: Selections, node: AggregateNode) -> Sets:
    """Return the values that some selected position can have, and the default where there is none."""
    values, low = facts.known[node.values], facts.witness.selectors[node.selector].low
    found = np.zeros((facts.cells, len(values.universe)), bool)
    for cells, may, _ in selections.of_selector(node.selector):
        met = may.astype(np.float32) @ values.sets.astype(np.float32)[values.cells[cells]]
        found[cells] = met > 0
    universe = [values.universe[k] for k in np.flatnonzero(found.any(0))]
    sets = found[:, found.any(0)]
    if (low == 0).any():
        default = facts.value(node.default)
        if default not in universe:
            universe, sets = [*universe, default], np.pad(sets, ((0, 0), (0, 1)))
        sets[low == 0, universe.index(default)] = True
    return universe, sets, np.arange(facts.cells)


def means(facts: Facts, selections: Selections, number: int, node: AggregateNode) -> Sets:
    """Return every mean of values of selected positions, and the default where there is none."""
    values, claim = facts.known[node.values], facts.witness.selectors[node.selector]
    name, default = facts.names[number], facts.value(node.default)
    if strange := [v for v in values.universe if not is_number(v)]:
        raise UnprovenError("means", name, f"{strange[0]!r} has no mean")
    numbers = [Fraction(v) for v in values.universe]
    scale = lcm(*(v.denominator for v in numbers))
    whole = np.array([int(v * scale) for v in numbers], dtype=object)
    members = [whole[row].tolist() for row in values.sets]
    rows = np.zeros((facts.cells, 2, len(members)), np.int64)
    for cells, may, must in selections.of_selector(node.selector):
        here = np.eye(len(members), dtype=np.int64)[values.cells[cells]]
        rows[cells, 0], rows[cells, 1] = must @ here, (may & ~must) @ here
    codes = np.hstack([rows.reshape(facts.cells, -1), claim.low[:, None], claim.high[:, None]])
    different, back = np.unique(codes, axis=0, return_inverse=True)
    found: list[set[Value]] = []
    for *counts, low, high in different.tolist():
        sure, perhaps = counts[: len(members)], counts[len(members) :]
        turns = [
            (members[k], turn < sure[k])
            for k in range(len(members))
            for turn in range(sure[k] + perhaps[k])
        ]
        found.append(_means(turns, low, high, scale, name) | ({default} if low == 0 else set()))
    universe = list(set().union(*found))
    place = {value: k for k, value in enumerate(universe)}
    sets = np.zeros((len(found), len(universe)), bool)
    for k, own in enumerate(found):
        sets[k, [place[value] for value in own]] = True
    return universe, sets, back.ravel()


def _means(
    turns: Iterable[tuple[list[int], bool]], low: int, high: int, scale: int, name: str
) -> set[Value]:
    """Return the means of ``low`` to ``high`` numbers, one of each turn, or none where it need not.

    For every count, the sums are the bits of a whole number: bit s is the sum s·step + count·least.
    """
    turns = list(turns)
    least = min((min(own) for own, _ in turns), default=0)
    step = gcd(*(v - least for own, _ in turns for v in own)) or 1
    if max((max(own) for own, _ in turns), default=0) - least > MOST_STEPS * step // max(high, 1):
        raise SizeError(f"{name}: sums of selected numbers are too far apart to be followed")
    sums = [1] + [0] * high
    for own, is_sure in turns:
        shifts = {(v - least) // step for v in own}
        for count in range(high, -1, -1):
            more = 0
            for shift in shifts if count else ():
                more |= sums[count - 1] << shift
            sums[count] = more if is_sure else sums[count] | more
        if sum(bits.bit_count() for bits in sums) > MOST_SUMS:
            raise SizeError(
                f"{name}: more than {MOST_SUMS:,} different sums of selected numbers; use a smaller "
                "max_length, or average numbers with fewer different values"
            )
    found: set[Value] = set()
    for count in range(max(low, 1), high + 1):
        for place in _bits(sums[count]):
            mean = Fraction(place * step + count * least, count * scale)
            found.add(int(mean) if mean.denominator == 1 else mean)
    return found


def _bits(number: int) -> list[int]:
    """Return the places of the ones of a whole number."""
    digits = bin(number)[:1:-1]
    places, at = [], digits.find("1")
    while at >= 0:
        places.append(at)
        at = digits.find("1", at + 1)
    return places
