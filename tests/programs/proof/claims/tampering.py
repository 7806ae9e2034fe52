"""Witnesses with one field changed, and the truth about what a witness says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from exactformer import rasp
from exactformer.errors import ExactformerError
from exactformer.programs import library
from exactformer.programs.finding import witness_of
from exactformer.programs.program import AggregateNode, AndNode, NotNode, OrNode, Program
from exactformer.programs.proof.claims.nodes import check_witness
from exactformer.programs.proof.facts import UnprovenError
from exactformer.programs.tabulation import tabulated
from exactformer.programs.witness import Apart, DifferenceClaim, Literal, Shared, Witness
from tests.cases.programs import all_inputs, random_program

SORT = library.make_sort_unique(rasp.tokens, rasp.tokens)
SUBJECTS: tuple[tuple[Any, Any, int, bool], ...] = (
    (library.make_induction(), "ab", 4, True),
    (library.make_most_frequent(), "ab", 4, False),
    (library.make_shuffle_dyck(["()"]), "()", 4, False),
    (SORT, [1, 2, 3], 4, False),
    (library.make_reverse(), "ab", 4, False),
    (library.make_frac_prevs(rasp.tokens == "a"), "ab", 4, True),
)


def subject(seed: int) -> tuple[Program, Witness] | None:
    """Return a program and its witness: one of the library's, or a random one if there is one."""
    given = SUBJECTS[seed % 12] if seed % 12 < len(SUBJECTS) else random_program(seed)
    try:
        program, analysis = tabulated(*given)
    except ExactformerError:
        return None
    return program, witness_of(analysis)


def tampered(program: Program, witness: Witness, rng: random.Random) -> tuple[str, Witness] | None:
    """Return the name of a field and a witness in which it is changed, where there is one."""
    name = rng.choice(list(CHANGES))
    changed = CHANGES[name](program, witness, rng)
    return None if changed is None else (name, changed)


def _at(items: tuple[Any, ...], k: int, item: Any) -> tuple[Any, ...]:
    return (*items[:k], item, *items[k + 1 :])


def _entry(array: Any, rng: random.Random, change: Callable[[Any], Any]) -> Any | None:
    if not array.size:
        return None
    found, at = array.copy(), tuple(rng.randrange(n) for n in array.shape)
    found[at] = change(found[at])
    return found


def _node(field: str) -> Any:
    def change(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
        k = rng.randrange(len(witness.nodes))
        claim = witness.nodes[k]
        value: Any
        if field == "universe":
            value, at = claim.universe, rng.randrange(len(claim.universe))
            kind = rng.randrange(4)
            if kind == 0:
                value = (*value[:at], *value[at + 1 :])
            elif kind == 1:
                value = _at(value, at, ("not", "a", "value"))
            elif kind == 2:
                value = (*value, (("one", "too", "many"),))
            elif len(value) > 1:
                value = (*value[1:], value[0])
            else:
                return None
        elif field == "root":
            value = rng.choice([n for n in range(-1, len(program.nodes) + 1) if n != claim.root])
        elif field == "image":
            value = _entry(claim.image, rng, lambda old: old + rng.choice([-1, 1]))
        elif field == "sets":
            value = _entry(claim.sets, rng, lambda old: not old)
        else:
            value = _entry(claim.cells, rng, lambda old: old + rng.choice([-1, 1]))
        return replace(witness, nodes=_at(witness.nodes, k, replace(claim, **{field: value})))

    return change


def _bound(field: str, of_term: bool) -> Any:
    def change(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
        if not witness.selectors:
            return None
        number = rng.choice(list(witness.selectors))
        claim: Any = witness.selectors[number]
        whole, k = claim, 0
        if of_term:
            if not claim.terms:
                return None
            k = rng.randrange(len(claim.terms))
            claim = claim.terms[k]
        moved = _entry(getattr(claim, field), rng, lambda old: old + rng.choice([-1, 1]))
        claim = replace(claim, **{field: moved})
        if of_term:
            claim = replace(whole, terms=_at(whole.terms, k, claim))
        return replace(witness, selectors={**witness.selectors, number: claim})

    return change


def _literals(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
    if not witness.selectors:
        return None
    number = rng.choice(list(witness.selectors))
    claim = witness.selectors[number]
    if not claim.terms:
        return None
    k = rng.randrange(len(claim.terms))
    term, kind = claim.terms[k], rng.randrange(5)
    literals = term.literals
    at = rng.randrange(len(literals)) if literals else 0
    if kind == 0:
        terms = (*claim.terms[:k], *claim.terms[k + 1 :])
    elif kind == 1:
        terms = (*claim.terms, term)
    elif not literals:
        return None
    else:
        one = literals[at]
        new: tuple[Literal, ...] = (Literal(one.select, not one.negated),)
        if kind == 3:
            new = (Literal((one.select + 1) % len(program.selectors), one.negated),)
        if kind == 4:
            new = ()
        terms = _at(
            claim.terms, k, replace(term, literals=(*literals[:at], *new, *literals[at + 1 :]))
        )
    changed = replace(claim, terms=terms)
    return replace(witness, selectors={**witness.selectors, number: changed})


def _aggregate(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
    if not witness.aggregates:
        return None
    number = rng.choice(list(witness.aggregates))
    claim = witness.aggregates[number]
    literal = Literal(rng.randrange(len(program.selectors)), rng.random() < 0.5)
    named = rng.choice([None, literal])
    changed = replace(claim, shared=rng.choice(list(Shared)), literal=named)
    if changed == claim:
        return None
    return replace(witness, aggregates={**witness.aggregates, number: changed})


def _difference(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
    numbers = range(-1, len(program.nodes) + 1)
    through = tuple(rng.choice(numbers) for _ in range(rng.randrange(3)))
    random_claim = DifferenceClaim(rng.choice(numbers), rng.choice(list(Apart)), through)
    if not witness.differences or rng.random() < 0.2:
        return replace(
            witness, differences={**witness.differences, (rng.choice(numbers),): random_claim}
        )
    nodes = rng.choice(list(witness.differences))
    claim = witness.differences[nodes]
    field = rng.choice(["node", "apart", "through"])
    changed = replace(claim, **{field: getattr(random_claim, field)})
    if changed == claim:
        return None
    return replace(witness, differences={**witness.differences, nodes: changed})


def _missing(program: Program, witness: Witness, rng: random.Random) -> Witness | None:
    field = rng.choice(["nodes", "selectors", "aggregates"])
    items: Any = getattr(witness, field)
    if not items:
        return None
    if field == "nodes":
        return replace(witness, nodes=items[:-1])
    left_out = rng.choice(list(items))
    return replace(witness, **{field: {k: v for k, v in items.items() if k != left_out}})


CHANGES: dict[str, Callable[[Program, Witness, random.Random], Witness | None]] = {
    **{f"node {field}": _node(field) for field in ("universe", "root", "image", "sets", "cells")},
    **{f"selector {field}": _bound(field, False) for field in ("low", "high")},
    **{f"term {field}": _bound(field, True) for field in ("low", "high")},
    "term literals": _literals,
    "aggregate": _aggregate,
    "difference": _difference,
    "missing": _missing,
}
REASONS = {"term literals", "aggregate", "difference"}
"""Fields that hold reasons: another reason may hold as well."""


def rule_against(program: Program, witness: Witness) -> str | None:
    """Return the name of the rule that refuses a witness, or None."""
    try:
        check_witness(program, witness)
    except UnprovenError as error:
        return error.rule
    return None


def assert_true(program: Program, witness: Witness, seed: int = 0) -> None:
    """Assert that what a witness says is so, on many inputs."""
    for xs in all_inputs(list(program.tokens), program.max_length, 60, seed):
        rows, size = program.run(xs), len(xs)
        start = 0 if program.causal else size * (size - 1) // 2
        for known, row in zip(witness.nodes, rows, strict=True):
            for i, value in enumerate(row):
                assert known.sets[known.cells[start + i], known.universe.index(value)]
            root = [witness.nodes[known.root].universe.index(v) for v in rows[known.root]]
            assert [known.universe[known.image[k]] for k in root] == row
        for number, claim in witness.selectors.items():
            for i in range(size):
                seen = range(i + 1) if program.causal else range(size)
                terms = [
                    [all(_holds(program, rows, lit, i, j) for lit in term.literals) for j in seen]
                    for term in claim.terms
                ]
                whole = [_selects(program, rows, number, i, j) for j in seen]
                assert np.array_equal(np.sum([[False] * len(seen), *terms], axis=0), whole)
                for one, selected in zip((claim, *claim.terms), (whole, *terms), strict=True):
                    assert one.low[start + i] <= sum(selected) <= one.high[start + i]
        for number, aggregate in witness.aggregates.items():
            node = program.nodes[number]
            assert isinstance(node, AggregateNode)
            if aggregate.shared is Shared.MEAN:
                continue
            for i in range(size):
                seen = range(i + 1) if program.causal else range(size)
                found = {
                    rows[node.values][j]
                    for j in seen
                    if _selects(program, rows, node.selector, i, j)
                }
                assert len(found) <= 1
        for nodes in witness.differences:
            assert len(set(zip(*(rows[node] for node in nodes), strict=True))) == size


def _holds(program: Program, rows: Any, literal: Literal, i: int, j: int) -> bool:
    return _selects(program, rows, literal.select, i, j) != literal.negated


def _selects(program: Program, rows: Any, number: int, i: int, j: int) -> bool:
    node = program.selectors[number]
    if isinstance(node, NotNode):
        return not _selects(program, rows, node.inner, i, j)
    if isinstance(node, AndNode | OrNode):
        both = [_selects(program, rows, part, i, j) for part in (node.first, node.second)]
        return all(both) if isinstance(node, AndNode) else any(both)
    key, query = rows[node.keys][j], rows[node.queries][i]
    if node.comparison:
        return bool(rasp.Comparison(node.comparison)(key, query))
    listed = node.table[program.numbers[key], program.numbers[query]] != 0
    return bool(listed != node.inverted)
