"""Verdicts are fair: every one can be reached, and what is ours never decides about the paper."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.experiments import Scale, Verdict
from exactformer.experiments.engine.summary import judged
from tests.experiments.made import result, row, statement

MET = {Verdict.REPRODUCED, Verdict.BETTER}


def judge(values, published=1.0, scale=Scale.PAPER, **options):
    quantity, values = row("error", values, published, **options)
    one = judged(quantity, values, scale)
    return one.verdict, one.why


@pytest.mark.parametrize(
    ("values", "options", "verdict", "why"),
    [
        ([1.0], {}, "reproduced", "Equal to the published value."),
        ([1.05], {}, "reproduced", "Within 10% of the published value."),
        (
            [0.1, 1.9, 2.5],
            {},
            "reproduced",
            "The published value lies within two spreads of our mean.",
        ),
        (
            [0.01, 0.011],
            {"better": "lower"},
            "better",
            "95.2 times lower than the published value.",
        ),
        ([1.5], {"better": "higher"}, "better", "50% higher than the published value."),
        (
            [1.35],
            {"better": "lower"},
            "differs",
            "35% higher than the published value, beyond 10%.",
        ),
        ([0.4], {}, "differs", "2.5 times lower than the published value, beyond 10%."),
        ([0.5, 0.5], {}, "differs", "2 times lower than the published value, beyond 10% and more"),
        ([1.0, math.nan], {"better": "lower"}, "differs", "1 of 2 seeds diverged."),
        ([1.0, math.nan], {"errata": "Misprint."}, "differs", "1 of 2 seeds diverged."),
        (
            [2.5],
            {"errata": "Misprint."},
            "corrected",
            "2.5 times higher than the published value. Misp",
        ),
        ([1.05], {"errata": "Misprint."}, "reproduced", "Within 10% of the published value."),
        ([1.05], {"ours": True}, "agrees", "Within 10% of the expected value."),
        (
            [0.1],
            {"ours": True, "better": "lower"},
            "differs",
            "10 times lower than the expected value",
        ),
        ([5.0], {"published": None}, "not compared", ""),
        ([5.0], {"within": math.inf, "note": "Run time."}, "not compared", "Run time."),
        ([5.0], {"scale": Scale.SMOKE}, "not compared", "Smoke scale is too small"),
        ([0.3], {"published": 0.0}, "differs", "0.3 higher than the published value"),
        ([-0.2], {"published": -1.0}, "differs", "80% higher than the published value"),
        ([1.01], {"note": "By luck."}, "reproduced", "Within 10% of the published value. By luck."),
    ],
)
def test_a_rows_verdict_has_a_reason(values, options, verdict, why):
    got, reason = judge(values, **options)
    assert got == verdict
    assert reason.startswith(why)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.sampled_from(["lower", "higher", None]))
def test_being_on_the_better_side_never_counts_as_different(ours, published, better):
    verdict, _ = judge([ours], published, better=better)
    if (better == "lower" and ours <= published) or (better == "higher" and ours >= published):
        assert verdict in MET
    if verdict is Verdict.BETTER:
        assert (ours < published) == (better == "lower")


HOLDS, FAILS = statement("x < y", True), statement("x < y", False)
SAME, OFF = row("a", [1.0], 1.0), row("b", [1.5], 1.0)
AHEAD = row("c", [0.2], 1.0, better="lower")
WRONG = row("d", [5.0], 1.0, errata="Misprint.")
CORRECTION = statement("x > y", True, errata="The paper has x < y.")
OURS_OFF = row("e", [9.0], 1.0, ours=True)
OURS_FAIL = statement("z < y", False, ours=True)


@pytest.mark.parametrize(
    ("rows", "statements", "verdict", "why"),
    [
        ([SAME], [HOLDS], "reproduced", "Every statement of the paper holds, and every published"),
        ([SAME], [], "reproduced", "Every published value is met."),
        ([], [HOLDS], "reproduced", "Every statement of the paper holds."),
        ([SAME, AHEAD], [HOLDS], "better", "Every statement of the paper holds. Better than publ"),
        (
            [SAME, OFF, AHEAD],
            [HOLDS],
            "statements hold, numbers differ",
            "Every statement of the paper holds. Ours differ from 1 of 3 published values: "
            "b (50% higher).",
        ),
        (
            [SAME, OFF],
            [],
            "not reproduced",
            "Ours differ from 1 of 2 published values: b (50% high",
        ),
        ([SAME], [FAILS], "not reproduced", "It does not hold that x < y."),
        (
            [SAME, WRONG],
            [HOLDS],
            "corrected",
            "Every statement of the paper holds. The paper's text",
        ),
        (
            [SAME],
            [HOLDS, CORRECTION],
            "corrected",
            "Every other statement of the paper holds. The paper's",
        ),
        ([OURS_OFF], [OURS_FAIL], "beyond the paper", "This goes beyond the paper"),
        (
            [SAME, OURS_OFF],
            [HOLDS, OURS_FAIL],
            "reproduced",
            "Every statement of the paper holds, and",
        ),
        ([], [], "beyond the paper", "This goes beyond the paper"),
    ],
)
def test_every_verdict_is_reached_with_its_reason(rows, statements, verdict, why):
    got = result(rows, statements)
    assert got.verdict == verdict
    assert got.why.startswith(why)


def test_an_experiment_that_is_ours_is_beyond_the_paper_whatever_came_of_it():
    assert result([SAME, OFF], [FAILS], ours=True).verdict is Verdict.BEYOND


def test_at_smoke_scale_only_a_broken_statement_decides():
    assert result([OFF], [HOLDS], Scale.SMOKE).verdict is Verdict.NOT_COMPARED
    assert result([OFF], [FAILS], Scale.SMOKE).verdict is Verdict.NOT_REPRODUCED


def test_what_cannot_be_judged_is_named_and_decides_nothing():
    got = result([SAME], [FAILS], unjudged=["a row of old"])
    assert got.verdict is Verdict.NOT_COMPARED
    assert "a row of old" in got.why


VALUES = st.sampled_from([0.2, 1.0, 1.05, 1.5, 7.0, math.nan])
ROWS = st.lists(
    st.builds(
        lambda value, published, better, errata: (
            [value],
            published,
            {"better": better, "errata": errata},
        ),
        VALUES,
        st.sampled_from([None, 1.0]),
        st.sampled_from([None, "lower", "higher"]),
        st.sampled_from(["", "Misprint."]),
    ),
    max_size=4,
)
STATEMENTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["", "The paper differs."])), max_size=4
)
SCALES = st.sampled_from([Scale.SMOKE, Scale.PAPER])


def named(rows, statements, **options):
    """Rows and statements with labels of their own."""
    of = "ours" if options else "paper"
    made = [row(f"{of} {i}", v, p, **more, **options) for i, (v, p, more) in enumerate(rows)]
    stated = [
        statement(f"{of} statement {i}", holds, errata=errata, **options)
        for i, (holds, errata) in enumerate(statements)
    ]
    return made, stated


@given(ROWS, STATEMENTS, ROWS, STATEMENTS, SCALES)
def test_what_is_ours_never_changes_the_verdict_on_the_paper(rows, claims, more, own, scale):
    rows, claims = named(rows, claims)
    more, own = named(more, own, ours=True)
    alone, both = result(rows, claims, scale), result(more + rows, own + claims, scale)
    assert (alone.verdict, alone.why) == (both.verdict, both.why)


@given(ROWS, STATEMENTS)
def test_a_good_verdict_leaves_nothing_of_the_paper_unmet(rows, claims):
    got = result(*named(rows, claims))
    published = [one.verdict for one in got.summary.rows if not one.ours]
    claimed = [holds for part, holds in got.tested if part.of_paper]
    if got.verdict in (*MET, Verdict.CORRECTED):
        assert all(claimed)
        assert Verdict.DIFFERS not in published
    if got.verdict is Verdict.REPRODUCED:
        assert set(published) <= {Verdict.REPRODUCED}
    if got.verdict is Verdict.NUMBERS_DIFFER:
        assert claimed
        assert all(claimed)
        assert Verdict.DIFFERS in published
    if got.verdict is Verdict.NOT_REPRODUCED:
        assert not all(claimed) or (not claimed and Verdict.DIFFERS in published)
