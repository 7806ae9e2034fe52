"""Each rule of a witness by itself: the claim that follows, and the one next to it that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.programs import library
from exactformer.programs.finding import find_witness
from exactformer.programs.program import AggregateNode, Program, WidthNode
from exactformer.programs.proof.claims.differences import is_chain
from exactformer.programs.proof.claims.nodes import check_witness
from exactformer.programs.proof.claims.selection import Selections
from exactformer.programs.proof.facts import Facts, UnprovenError
from exactformer.programs.tabulation import tabulate
from exactformer.programs.witness import (
    AggregateClaim,
    Apart,
    DifferenceClaim,
    Literal,
    Shared,
    TermClaim,
    Witness,
)

EQUAL = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
BEFORE = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.LT)
LESS = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.LT)


def found(
    expression: rasp.SOp, vocabulary: Any = "ab", length: int = 4, causal: bool = False
) -> tuple[Program, Witness]:
    program = tabulate(expression, vocabulary, length, causal)
    return program, find_witness(program)


def refused(program: Program, witness: Witness, rule: str) -> None:
    with pytest.raises(UnprovenError) as caught:
        check_witness(program, witness)
    assert caught.value.rule == rule
    assert rule in str(caught.value)


def test_a_position_seen_from_itself_has_one_value_for_key_and_query() -> None:
    program, witness = found(rasp.SelectorWidth(EQUAL))
    facts = Facts(program, witness)
    selector = next(iter(witness.selectors))
    for _, may, must in Selections(facts).of_selector(selector):
        assert may.all()
        assert (must == np.eye(len(must), dtype=bool)).all()


def test_causal_positions_select_nothing_that_comes_later() -> None:
    program, witness = found(rasp.SelectorWidth(EQUAL), causal=True)
    selector = next(iter(witness.selectors))
    ((_, may, must),) = Selections(Facts(program, witness)).of_selector(selector)
    assert not np.triu(may, 1).any()
    assert not np.triu(must, 1).any()


def union() -> tuple[Program, Witness, int]:
    program, witness = found(rasp.SelectorWidth(EQUAL | BEFORE), length=3)
    selector = next(iter(witness.selectors))
    assert len(witness.selectors[selector].terms) == 2
    return program, witness, selector


def with_terms(witness: Witness, selector: int, *literals: tuple[Literal, ...]) -> Witness:
    claim = witness.selectors[selector]
    terms = tuple(TermClaim(own, claim.low, claim.high) for own in literals)
    return replace(witness, selectors={selector: replace(claim, terms=terms)})


def test_terms_that_overlap_are_refused() -> None:
    program, witness, selector = union()
    first, second = (Literal(k, False) for k in (0, 1))
    refused(program, with_terms(witness, selector, (first,), (second,)), "terms")


def test_terms_that_leave_something_out_are_refused() -> None:
    program, witness, selector = union()
    refused(program, with_terms(witness, selector, (Literal(0, False),)), "terms")
    refused(program, with_terms(witness, selector), "terms")


def test_a_term_that_nothing_satisfies_may_be_left_out() -> None:
    """Of ``a < b or a == b`` the second term would have both; no key and query are both."""
    program, witness = found(rasp.SelectorWidth(LESS & EQUAL), vocabulary=[1, 2])
    assert witness.selectors[2].terms == ()
    check_witness(program, witness)


def test_a_key_that_repeats_may_be_selected_twice() -> None:
    program, witness = found(rasp.SelectorWidth(EQUAL))
    tokens = program.nodes.index(program.nodes[0])
    for claim in (
        DifferenceClaim(tokens, Apart.INDEX),
        DifferenceClaim(tokens, Apart.PART, (tokens,)),
        DifferenceClaim(tokens, Apart.FUNCTION, (tokens,)),
    ):
        refused(program, replace(witness, differences={(tokens,): claim}), "differences")
    narrow = dict(witness.selectors)
    for selector, own in narrow.items():
        narrow[selector] = replace(own, high=np.minimum(own.high, 1))
    refused(program, replace(witness, selectors=narrow), "widths")


def test_keys_that_differ_given_the_other_conjunct_select_one_position() -> None:
    """Of positions with equal tokens each has another count of equal tokens before it."""
    program, witness = found(library.make_induction(), "ab", 5, causal=True)
    check_witness(program, witness)
    nodes, claim = next(
        (nodes, claim) for nodes, claim in witness.differences.items() if len(nodes) == 2
    )
    assert claim.apart is Apart.ORDER
    assert isinstance(program.nodes[claim.node], WidthNode)
    alone = {**witness.differences, (claim.node,): claim}
    refused(program, replace(witness, differences=alone), "differences")
    without = {k: v for k, v in witness.differences.items() if k != nodes}
    refused(program, replace(witness, differences=without), "widths")


@pytest.mark.parametrize(
    ("rows", "apart"),
    [
        pytest.param([[0, 0, 0], [1, 0, 0], [1, 1, 0]], True, id="those before"),
        pytest.param([[1, 0, 0], [1, 1, 0], [1, 1, 1]], True, id="and itself"),
        pytest.param([[1, 0, 0], [1, 1, 0], [1, 1, 0]], False, id="two alike"),
        pytest.param([[0, 0, 0], [1, 0, 0], [0, 1, 0]], False, id="not nested"),
        pytest.param([[0, 0, 0], [0, 0, 1], [0, 0, 1]], False, id="neither of the two"),
    ],
)
def test_selections_are_nested_with_one_of_two_that_the_smaller_has_not(
    rows: list[list[int]], apart: bool
) -> None:
    assert is_chain(np.array(rows, bool), np.arange(3)) is apart


def test_a_reason_that_fixes_no_value_is_refused() -> None:
    mean = rasp.Aggregate(EQUAL, rasp.indices)
    program, witness = found(mean)
    (number,) = witness.aggregates
    node = program.nodes[number]
    assert isinstance(node, AggregateNode)
    for shared in set(Shared) - {Shared.MEAN}:
        for literal in (None, Literal(node.selector, False)):
            claim = AggregateClaim(shared, literal)
            refused(program, replace(witness, aggregates={number: claim}), "shared values")
    fixed, claims = found(rasp.Aggregate(EQUAL, rasp.Map(lambda x: x + "!", rasp.tokens)))
    assert {claim.shared for claim in claims.aggregates.values()} == {Shared.FIXED}
    check_witness(fixed, claims)


def test_a_mean_that_is_left_out_is_refused() -> None:
    program, witness = found(rasp.Aggregate(EQUAL, rasp.indices))
    claim = witness.nodes[-1]
    for k in range(len(claim.universe)):
        kept = [at for at in range(len(claim.universe)) if at != k]
        less = replace(
            claim,
            universe=tuple(claim.universe[at] for at in kept),
            image=np.arange(len(kept)),
            sets=claim.sets[:, kept],
        )
        refused(program, replace(witness, nodes=(*witness.nodes[:-1], less)), "values")


def test_what_has_no_mean_is_not_averaged() -> None:
    program, witness = found(rasp.Aggregate(EQUAL, rasp.tokens))
    (number,) = witness.aggregates
    mean = {number: AggregateClaim(Shared.MEAN)}
    refused(program, replace(witness, aggregates=mean), "means")
