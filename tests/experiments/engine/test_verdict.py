"""Rows are held against what is expected or published, and the ledger alone judges the papers."""

import math

import pytest

from exactformer.claims import Verdict
from exactformer.experiments import Scale
from exactformer.experiments.engine.verdict import Outcome
from tests.experiments.made import result, row, statement


@pytest.mark.parametrize(
    ("values", "options", "verdict", "why"),
    [
        ([1.0], {}, "agrees", "Equal to the expected value."),
        ([1.05], {}, "agrees", "Within 10% of the expected value."),
        ([0.1, 1.9, 2.5], {}, "agrees", "The expected value lies within two spreads of our mean."),
        ([1.35], {}, "differs", "35% higher than the expected value, beyond 10%."),
        ([0.5, 0.5], {}, "differs", "2 times lower than the expected value, beyond 10% and more"),
        ([1.0, math.nan], {}, "differs", "1 of 2 seeds diverged."),
        ([5.0], {"expected": None}, "not compared", ""),
        ([0.3], {"expected": 0.0}, "differs", "0.3 higher than the expected value"),
        ([1.01], {"note": "By luck."}, "agrees", "Within 10% of the expected value. By luck."),
    ],
)
def test_a_rows_outcome_has_a_reason(values, options, verdict, why):
    (one,) = result([row("error", values, **{"expected": 1.0, **options})]).summary.rows
    assert one.verdict == verdict
    assert one.why.startswith(why)


def test_smoke_scale_compares_nothing():
    (one,) = result([row("error", [5.0], 1.0)], scale=Scale.SMOKE).summary.rows
    assert one.verdict is Outcome.NOT_COMPARED


def test_a_published_value_comes_from_the_ledger_and_belongs_to_full_scale():
    made = [row("σ_1 after mixing", [1.2622]), row("σ_2 after mixing", [0.5])]
    first, second = result(made, name="jiang-mixing").summary.rows
    assert (first.published, first.verdict) == (1.265, Verdict.NUMBERS_DIFFER)
    assert (second.published, second.verdict) == (0.5, Verdict.REPRODUCED)
    (smaller, _) = result(made, name="jiang-mixing", scale=Scale.DEFAULT).summary.rows
    assert smaller.verdict is Outcome.NOT_COMPARED


CONCENTRATED = (
    "the median coefficient of variation of the leading singular values is below one half"
)


@pytest.mark.parametrize(
    ("holds", "scale", "verdict"),
    [
        (True, Scale.FULL, "holds on substitutes"),
        (False, Scale.FULL, "not reproduced"),
        (True, Scale.SMOKE, "not compared"),
        (False, Scale.SMOKE, "not reproduced"),
    ],
)
def test_an_experiments_verdict_is_that_of_its_claims(holds, scale, verdict):
    got = result([], [statement(CONCENTRATED, holds)], scale, name="jiang-figure-2")
    assert got.verdict == verdict
    assert got.why


def test_what_no_claim_rests_on_decides_nothing():
    alone = [statement(CONCENTRATED, True)]
    both = [*alone, statement("something of ours", False)]
    rows = [row("ours", [9.0], 1.0)]
    name = "jiang-figure-2"
    assert result(rows, both, name=name).verdict is result([], alone, name=name).verdict
    assert result(rows, [statement("something of ours", False)]).verdict is Verdict.BEYOND


def test_what_cannot_be_judged_is_named_and_decides_nothing():
    got = result([], [statement(CONCENTRATED, False)], unjudged=["a row of old"])
    assert got.verdict is Outcome.NOT_COMPARED
    assert "a row of old" in got.why
