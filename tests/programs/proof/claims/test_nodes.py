"""A witness is believed where every claim of it follows, and refused by the rule that it breaks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from exactformer import rasp
from exactformer.programs import library
from exactformer.programs.finding import find_witness
from exactformer.programs.proof.claims.nodes import check_witness
from exactformer.programs.proof.facts import UnprovenError
from exactformer.programs.tabulation import tabulate
from tests.programs.proof.claims.tampering import (
    CHANGES,
    REASONS,
    assert_true,
    rule_against,
    subject,
    tampered,
)

RULES = {"form", "roots", "functions", "values", "terms", "widths", "shared values", "differences"}
"""All rules but those of tables and means, which no change of a witness alone can break."""


def outcomes(seeds: range, changes: int) -> tuple[Counter[str], Counter[str]]:
    """Tamper with witnesses; count the rules that refuse them, and the fields of those that hold."""
    refused: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for seed in seeds:
        if (found := subject(seed)) is None:
            continue
        program, witness = found
        rng = random.Random(f"tampering {seed}")
        for _ in range(changes):
            if (changed := tampered(program, witness, rng)) is None:
                continue
            name, other = changed
            if (rule := rule_against(program, other)) is not None:
                refused[rule] += 1
                continue
            assert name in REASONS, (seed, name)
            assert_true(program, other, seed)
            held[name] += 1
    return refused, held


@pytest.mark.parametrize("seed", range(100))
def test_what_is_found_of_a_program_follows(seed: int) -> None:
    if (found := subject(seed)) is not None:
        check_witness(*found)
        assert_true(*found, seed)


def test_every_tampered_witness_is_refused_by_a_rule_or_true_for_another_reason() -> None:
    refused, held = outcomes(range(60), 10)
    assert sum(refused.values()) >= 300
    assert set(refused) <= RULES | {"tables", "means"}
    assert sum(held.values()) <= sum(refused.values()) // 10


@pytest.mark.slow
def test_ten_thousand_tampered_witnesses_are_refused() -> None:
    refused, held = outcomes(range(1300), 12)
    assert sum(refused.values()) >= 10_000
    assert set(refused) >= RULES
    assert sum(held.values()) <= sum(refused.values()) // 10


@pytest.mark.parametrize("name", CHANGES)
def test_no_field_is_left_unchecked(name: str) -> None:
    rng = random.Random(name)
    refused = 0
    for seed in range(24):
        if (found := subject(seed)) is None:
            continue
        program, witness = found
        changed = CHANGES[name](program, witness, rng)
        refused += changed is not None and rule_against(program, changed) is not None
    assert refused


def test_a_claim_about_no_node_is_refused() -> None:
    program = tabulate(library.make_reverse(), "ab", 3)
    witness = find_witness(program)
    assert rule_against(program, witness) is None
    assert rule_against(program, replace(witness, nodes=())) == "form"
    beyond = {**witness.selectors, 99: next(iter(witness.selectors.values()))}
    assert rule_against(program, replace(witness, selectors=beyond)) == "form"


def test_a_table_without_a_value_that_can_occur_is_refused() -> None:
    program = tabulate(rasp.Map({"a": "b", "b": "a"}.get, rasp.tokens), "ab", 2)
    witness = find_witness(program)
    node = program.nodes[-1]
    entries = dict(list(node.table.entries.items())[:1])  # type: ignore[union-attr]
    table = replace(node.table, entries=entries)  # type: ignore[union-attr]
    other = replace(program, nodes=(*program.nodes[:-1], replace(node, table=table)))  # type: ignore[call-arg]
    with pytest.raises(UnprovenError, match="no value at"):
        check_witness(other, witness)
