"""Cases of a step: all values that occur together, and what a node is in each."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.errors import CertificationError, SizeError
from exactformer.programs.program import Program
from exactformer.programs.proof import cases as module
from exactformer.programs.proof.arithmetic import Arithmetic
from exactformer.programs.proof.cases import _is_part, _missing, _place, cases_of
from exactformer.programs.proof.state import State
from exactformer.programs.tabulation import tabulated
from tests.programs.proof.steps import made_state

EQUAL = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
FIRST = rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == 0)
ONES = rasp.Select(rasp.tokens, rasp.tokens, lambda k, q: k == 1)
BEFORE = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.LT)
TWO = rasp.SelectorWidth(EQUAL | FIRST)
ONE = rasp.SelectorWidth(EQUAL)
RANK = rasp.SelectorWidth(BEFORE)
VOCABULARY = (0, 1, 3)


def state_of(expression: rasp.SOp) -> tuple[Program, State]:
    program, _ = tabulated(expression, VOCABULARY, 3)
    return program, made_state(expression, [], Arithmetic())


def nodes(state: State, kind: str) -> list[int]:
    return [k for k, node in enumerate(state.facts.nodes) if type(node).__name__ == kind]


def occurring(program: Program, state: State, names: list[Any], node: int) -> set[tuple[int, ...]]:
    """Return the places of the values of nodes, and of one more, at all positions of all inputs."""
    found = set()
    numbers = [name[0] for name in names] + [node]
    place = [{v: k for k, v in enumerate(state.facts.universe(n))} for n in numbers]
    for length in (1, 2, 3):
        for tokens in product(VOCABULARY, repeat=length):
            columns = [replace(program, output=n, numerical=False)(tokens) for n in numbers]
            found |= {
                tuple(p[v] for p, v in zip(place, row, strict=True))
                for row in zip(*columns, strict=True)
            }
    return found


def rows_of(cases: Any, names: list[Any]) -> set[tuple[int, ...]]:
    columns = [cases.columns[name].tolist() for name in names]
    assert len(cases) == len(cases.target)
    return set(zip(*columns, cases.target.tolist(), strict=True))


def test_two_roots_have_all_pairs_and_a_function_of_one_its_value() -> None:
    program, state = state_of(rasp.SequenceMap(lambda a, b: a - b, rasp.tokens, rasp.indices))
    (tokens,), (indices,), (pair,) = (
        nodes(state, kind) for kind in ("TokensNode", "IndicesNode", "PairNode")
    )
    names = [(tokens, None), (indices, None)]
    for order in (names, names[::-1]):
        cases = cases_of(state, [*order, None], pair, None)
        assert rows_of(cases, order) == occurring(program, state, order, pair)
        assert len(cases) == 9
    alone = cases_of(state, names[:1], pair, None)  # the position is added
    assert set(alone.columns) == set(names)
    assert rows_of(alone, names) == rows_of(cases_of(state, names, pair, None), names)
    itself = cases_of(state, [(pair, None)], pair, None)
    assert itself.target.tolist() == list(range(len(state.facts.universe(pair))))
    nothing = cases_of(state, [], None, None)
    assert (nothing.columns, nothing.target.tolist()) == ({}, [0])
    free = cases_of(state, names, None, None)
    assert len(free) == 9
    assert not free.target.any()


def test_pairs_that_never_meet_are_left_out() -> None:
    """The rank of a position is the position."""
    program, state = state_of(rasp.SequenceMap(lambda a, b: a + b, RANK, rasp.indices))
    (indices,), (width,) = nodes(state, "IndicesNode"), nodes(state, "WidthNode")
    names = [(indices, None), (width, None)]
    cases = cases_of(state, names, width, None)
    assert rows_of(cases, names) >= occurring(program, state, names, width)
    assert len(cases) < 9
    assert (cases.target == cases.columns[width, None]).all()


def test_sums_of_pairs_are_found_through_their_parts() -> None:
    inner = rasp.SequenceMap(lambda a, b: a - b, rasp.tokens, rasp.indices)
    outer = rasp.SequenceMap(lambda a, b: a * b, inner, rasp.Map(lambda x: x + 1, rasp.tokens))
    program, state = state_of(outer)
    (tokens,), (indices,) = nodes(state, "TokensNode"), nodes(state, "IndicesNode")
    names = [(tokens, None), (indices, None)]
    cases = cases_of(state, names, program.output, None)
    assert rows_of(cases, names) >= occurring(program, state, names, program.output)
    assert len(cases) == 9
    assert _missing(state.facts, {names[0]}, program.output, None) == [names[1]]
    assert _missing(state.facts, set(), program.output, None) in (
        [names[0], names[1]],
        [names[1], names[0]],
    )


def test_linear_maps_are_found_through_their_parts() -> None:
    program, state = state_of(rasp.LinearSequenceMap(rasp.tokens, rasp.indices, 2, -1))
    (tokens,), (indices,) = nodes(state, "TokensNode"), nodes(state, "IndicesNode")
    assert nodes(state, "LinearNode") == [program.output]
    names: list[Any] = [(tokens, None), (indices, None)]
    cases = cases_of(state, names[:1], program.output, None)
    assert rows_of(cases, names) == occurring(program, state, names, program.output)


def test_terms_meet_everything_whatever_their_width_does() -> None:
    """At the last position the width is at least three; that says nothing of a term."""
    _, state = state_of(rasp.SelectorWidth(BEFORE | EQUAL))
    (width,), (indices,) = nodes(state, "WidthNode"), nodes(state, "IndicesNode")
    assert not state.facts.joint(width, indices).all()
    for roots in ([(width, 0), (indices, None)], [(indices, None), (width, 0)]):
        assert len(cases_of(state, roots, None, None)) == 3 * state.values((width, 0))
    whole = cases_of(state, [(width, None), (indices, None)], None, None)
    assert len(whole) == state.facts.joint(width, indices).sum()


@pytest.mark.parametrize("selector", [EQUAL | FIRST, ONES | FIRST], ids=["above", "below"])
@pytest.mark.parametrize("first", [True, False])
def test_sums_of_terms_that_no_width_has_are_left_out_of_functions_of_it(
    selector: rasp.Selector, first: bool
) -> None:
    count = rasp.SelectorWidth(selector)
    if first:
        pair = rasp.SequenceMap(lambda a, b: 10 * a + b, count, rasp.tokens)
    else:
        pair = rasp.SequenceMap(lambda b, a: 10 * a + b, rasp.tokens, count)
    program, state = state_of(pair)
    (width,), (tokens,) = nodes(state, "WidthNode"), nodes(state, "TokensNode")
    analysis = state.facts
    number = analysis.nodes[width].selector  # type: ignore[union-attr]
    widths = [analysis.term_widths(number, k) for k in (0, 1)]
    universe, whole = analysis.universe(program.output), analysis.universe(width)
    sums = {a + b for a, b in product(*widths)}
    assert sums > set(whole)
    names: list[Any] = [(width, 0), (width, 1), (tokens, None)]
    wanted = {
        (a, b, c, universe.index(10 * (widths[0][a] + widths[1][b]) + VOCABULARY[c]))
        for a, b, c in product(range(len(widths[0])), range(len(widths[1])), range(3))
        if widths[0][a] + widths[1][b] in whole
    }
    assert rows_of(cases_of(state, names, program.output, None), names) == wanted
    assert rows_of(cases_of(state, names, width, None), names) == {
        (a, b, c, whole.index(widths[0][a] + widths[1][b])) for a, b, c, _ in wanted
    }


def test_constants_need_nothing() -> None:
    program, state = state_of(rasp.Map(lambda _: 5, rasp.tokens))
    assert _missing(state.facts, set(), program.output, None) == []
    cases = cases_of(state, [], program.output, None)
    assert cases.target.tolist() == [0]
    root = state.facts.known[program.output].root
    inside = cases_of(state, [(root, None)], program.output, None)
    assert inside.target.tolist() == [0, 0, 0]


def test_a_width_is_the_sum_of_its_terms() -> None:
    _, state = state_of(TWO)
    (width,) = nodes(state, "WidthNode")
    analysis = state.facts
    selector = analysis.nodes[width].selector  # type: ignore[union-attr]
    assert len(analysis.terms(selector)) == 2
    widths = [analysis.term_widths(selector, k) for k in (0, 1)]
    terms: list[Any] = [(width, 0), (width, 1)]
    cases = cases_of(state, terms, width, None)
    universe = analysis.universe(width)
    wanted = {
        (a, b, universe.index(widths[0][a] + widths[1][b]))
        for a in range(len(widths[0]))
        for b in range(len(widths[1]))
        if widths[0][a] + widths[1][b] in universe
    }
    assert rows_of(cases, terms) == wanted
    assert len(wanted) < len(widths[0]) * len(widths[1])
    # One term is added where another is read; without any, the width itself is.
    assert _missing(analysis, {(width, 0)}, width, None) == [(width, 1)]
    assert _missing(analysis, set(terms), width, None) == []
    assert _missing(analysis, set(), width, None) == [(width, None)]
    assert _missing(analysis, {(width, None)}, width, None) == []


def test_a_term_of_several_is_its_own_root_and_a_single_one_is_not() -> None:
    _, state = state_of(TWO)
    (width,) = nodes(state, "WidthNode")
    (tokens,) = nodes(state, "TokensNode")
    analysis = state.facts
    assert _is_part(analysis, width, 1)
    assert not _is_part(analysis, width, None)
    assert not _is_part(analysis, tokens, 0)
    assert _missing(analysis, set(), width, 1) == [(width, 1)]
    assert _missing(analysis, {(width, None)}, width, 1) == [(width, 1)]
    assert _missing(analysis, {(width, 1)}, width, 1) == []
    cases = cases_of(state, [(width, None)], width, 1)
    assert (cases.target == cases.columns[width, 1]).all()
    assert len(cases) == state.values((width, None)) * state.values((width, 1))
    _, single = state_of(ONE)
    (number,) = nodes(single, "WidthNode")
    assert not _is_part(single.facts, number, 0)
    assert _missing(single.facts, set(), number, 0) == [(number, None)]
    found = cases_of(single, [], number, 0)
    assert (found.target == found.columns[number, None]).all()


def test_terms_that_select_a_fixed_number_are_added_unread() -> None:
    """Position 0 is one position; another term need not be told of it."""
    first = rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == 0)
    later = rasp.Select(rasp.indices, rasp.indices, lambda k, q: 0 < k <= q)
    _, state = state_of(rasp.SelectorWidth(first | later))
    (width,) = nodes(state, "WidthNode")
    analysis = state.facts
    selector = analysis.nodes[width].selector  # type: ignore[union-attr]
    sizes = [analysis.term_widths(selector, k) for k in range(len(analysis.terms(selector)))]
    assert sorted(map(len, sizes)) == [1, 3]
    several = max(range(2), key=lambda k: len(sizes[k]))
    assert _missing(analysis, {(width, several)}, width, None) == []
    cases = cases_of(state, [(width, several)], width, None)
    universe = analysis.universe(width)
    fixed = sizes[1 - several][0]
    got = {(sizes[several][a], universe[b]) for a, b in rows_of(cases, [(width, several)])}
    assert got == {(n, n + fixed) for n in sizes[several] if n + fixed in universe}


def test_what_is_not_a_function_of_what_is_read_is_refused() -> None:
    _, state = state_of(TWO)
    (width,) = nodes(state, "WidthNode")
    (tokens,) = nodes(state, "TokensNode")
    for columns in ({}, {(width, 0): np.zeros(2, np.int64)}):
        with pytest.raises(CertificationError, match="not a function"):
            _place(state.facts, columns, width, None, 2)
    with pytest.raises(CertificationError, match="not a function"):
        _place(state.facts, {}, tokens, None, 2)


def test_too_many_cases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, state = state_of(rasp.SequenceMap(lambda a, b: a - b, rasp.tokens, rasp.indices))
    (tokens,), (indices,) = nodes(state, "TokensNode"), nodes(state, "IndicesNode")
    names: list[Any] = [(tokens, None), (indices, None)]
    monkeypatch.setattr(module, "MOST_CASES", 9)
    assert len(cases_of(state, names, None, None)) == 9
    monkeypatch.setattr(module, "MOST_CASES", 8)
    with pytest.raises(SizeError, match="9 combinations"):
        cases_of(state, names, None, None)
