"""The rules of a witness, node by node: if every claim follows, all hold on every input.

By induction over the nodes. A claim about a node speaks of every cell; its rule derives it from the
claims about the node's parts, which come before it, and it must be what the rule gives: a value that
is missing could occur, and one too many was not found where it is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from exactformer.programs.program import (
    AggregateNode,
    ConstantNode,
    IndicesNode,
    LinearNode,
    MapNode,
    PairNode,
    Program,
    TokensNode,
    WidthNode,
    check_program,
)
from exactformer.programs.proof.claims.aggregates import Sets, check_shared, means, shared_values
from exactformer.programs.proof.claims.differences import check_difference
from exactformer.programs.proof.claims.selection import Selections
from exactformer.programs.proof.claims.selectors import check_selector
from exactformer.programs.proof.facts import Facts, UnprovenError
from exactformer.programs.values import Value, in_order
from exactformer.programs.witness import Flags, Integers, NodeClaim, Witness


def check_witness(program: Program, witness: Witness) -> Facts:
    """Return what a witness says of a program, every claim of it proven.

    Raises:
        UnprovenError: with the node or selector, and the rule, by which a claim does not follow.
    """
    check_program(program)
    facts = Facts(program, witness)
    _check_form(facts)
    selections, done = Selections(facts), set()
    for number, node in enumerate(facts.nodes):
        if isinstance(node, WidthNode | AggregateNode) and node.selector not in done:
            check_selector(facts, selections, node.selector)
            done.add(node.selector)
        _check_node(facts, selections, number)
    for nodes in witness.differences:
        check_difference(facts, nodes)
    if set(witness.selectors) != done:
        raise UnprovenError("form", "the witness", "it speaks of selectors that no node names")
    return facts


def _check_form(facts: Facts) -> None:
    """Raise unless claims have the shapes, and refer to what is there; no value is looked at."""
    program, witness = facts.program, facts.witness
    aggregates = {k for k, node in enumerate(program.nodes) if isinstance(node, AggregateNode)}
    right = len(witness.nodes) == len(program.nodes) and set(witness.aggregates) == aggregates
    claims = witness.differences.items()
    named = [k for nodes, claim in claims for k in (*nodes, claim.node, *claim.through)]
    right = right and all(0 <= k < len(program.nodes) for k in named)
    right = right and all(0 <= k < len(program.selectors) for k in witness.selectors)
    if not right:
        raise UnprovenError("form", "the witness", "it does not speak of the program's parts")
    for number, claim in enumerate(witness.nodes):
        if not 0 <= claim.root <= number:
            raise UnprovenError("form", program.names[number], "its root comes after it")
        values, root = len(claim.universe), witness.nodes[claim.root]
        right = claim.sets.dtype == bool and claim.sets.ndim == 2 and claim.sets.shape[1] == values
        right = right and _are_places(claim.image, len(root.universe), values)
        right = right and _are_places(claim.cells, facts.cells, len(claim.sets))
        if not right or list(claim.universe) != in_order(claim.universe):
            raise UnprovenError("form", program.names[number], "its claim has another form")


def _are_places(array: Integers, count: int, limit: int) -> bool:
    if array.dtype != np.int64 or array.shape != (count,):
        return False
    return count == 0 or bool(array.min() >= 0 and array.max() < limit)


def _check_node(facts: Facts, selections: Selections, number: int) -> None:
    node = facts.nodes[number]
    if isinstance(node, TokensNode):
        _check_root(facts, number, _everywhere(facts, facts.program.tokens))
    elif isinstance(node, IndicesNode):
        n = facts.max_length
        cells = np.concatenate([np.arange(m) for m, _ in facts.lengths()])
        _check_root(facts, number, (list(range(n)), np.eye(n, dtype=bool), cells))
    elif isinstance(node, ConstantNode):
        _check_root(facts, number, _everywhere(facts, [facts.value(node.value)]))
    elif isinstance(node, MapNode):
        inner = facts.known[node.inner]
        outputs = [facts.output(number, value) for value in inner.universe]
        _check_function(facts, number, inner.root, [outputs[k] for k in inner.image.tolist()])
    elif isinstance(node, PairNode | LinearNode):
        a, b = facts.known[node.first], facts.known[node.second]
        if a.root == b.root:
            places = zip(a.image.tolist(), b.image.tolist(), strict=True)
            outputs = [facts.output(number, a.universe[x], b.universe[y]) for x, y in places]
            _check_function(facts, number, a.root, outputs)
        else:
            _check_root(facts, number, _met(facts, number, a, b))
    elif isinstance(node, WidthNode):
        width = facts.witness.selectors[node.selector]
        _check_root(facts, number, _between(width.low, width.high))
    else:
        check_shared(facts, number, node)
        if facts.is_uniform(number):
            _check_root(facts, number, shared_values(facts, selections, node))
        else:
            _check_root(facts, number, means(facts, selections, number, node))


def _everywhere(facts: Facts, values: Iterable[Value]) -> Sets:
    universe = list(values)
    return universe, np.ones((1, len(universe)), bool), np.zeros(facts.cells, np.int64)


def _met(facts: Facts, number: int, a: NodeClaim, b: NodeClaim) -> Sets:
    """Return the values of a pair in every cell: those of all pairs of values there."""
    outputs = facts.outputs(number)
    universe = in_order(outputs.values())
    place = {value: k for k, value in enumerate(universe)}
    table = np.full((len(a.universe), len(b.universe)), -1, np.int64)
    for pair, value in outputs.items():
        table[pair] = place[value]
    codes, cells = np.unique(a.cells * len(b.sets) + b.cells, return_inverse=True)
    sets = np.zeros((len(codes), len(universe)), bool)
    for k, code in enumerate(codes.tolist()):
        of_first, of_second = divmod(code, len(b.sets))
        sets[k, table[a.sets[of_first]][:, b.sets[of_second]]] = True
    return universe, sets, cells.ravel()


def _between(low: Integers, high: Integers) -> Sets:
    """Return whole numbers between bounds."""
    first, last = int(low.min()), int(high.max())
    bounds, cells = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
    numbers = np.arange(first, last + 1)
    sets = (bounds[:, :1] <= numbers) & (numbers <= bounds[:, 1:])
    return numbers.tolist(), sets, cells.ravel()


def _check_root(facts: Facts, number: int, found: Sets) -> None:
    """Check the claim about a node that is a function of no other."""
    claim = facts.known[number]
    if claim.root != number or claim.image.tolist() != list(range(len(claim.universe))):
        raise UnprovenError("roots", facts.names[number], "it is not a function of another node")
    _check_sets(facts, number, found)


def _check_function(facts: Facts, number: int, root: int, outputs: list[Value]) -> None:
    """Check the claim about a function of a root, given its output for every value of that."""
    claim, name = facts.known[number], facts.names[number]
    if claim.root != root:
        raise UnprovenError("roots", name, "it is a function of another node")
    if [claim.universe[k] for k in claim.image.tolist()] != outputs:
        raise UnprovenError("functions", name, "for a value of its root it is not what is claimed")
    base, place = facts.known[root], {v: k for k, v in enumerate(dict.fromkeys(outputs))}
    sets = np.zeros((len(base.sets), len(place)), bool)
    for k, value in enumerate(outputs):
        sets[:, place[value]] |= base.sets[:, k]
    _check_sets(facts, number, (list(place), sets, base.cells))


def _check_sets(facts: Facts, number: int, found: Sets) -> None:
    """Raise unless the values claimed in every cell are those that were found."""
    claim, name = facts.known[number], facts.names[number]
    universe, sets, cells = found
    if set(universe) != set(claim.universe):
        raise UnprovenError("values", name, "its values are not those that can occur")
    place = {value: k for k, value in enumerate(claim.universe)}
    ordered: Flags = np.zeros_like(sets)
    ordered[:, [place[value] for value in universe]] = sets
    pairs = np.unique(claim.cells * len(sets) + cells)
    claimed, right = claim.sets[pairs // len(sets)], ordered[pairs % len(sets)]
    if (right & ~claimed).any():
        raise UnprovenError("values", name, "a value can occur where it is not claimed")
    if (claimed & ~right).any():
        raise UnprovenError("values", name, "a value is claimed where it cannot occur")
