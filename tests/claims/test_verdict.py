"""Every verdict can be reached, by evidence alone, and none by another way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.claims import Claim, Condition, Erratum, Run, Value, Verdict, compare, judge
from exactformer.claims.verdict import MEANINGS, together


def claim(**fields):
    about = {"id": "a", "work": "w", "kind": "text", "place": "p", "title": "t", "says": "s"}
    return Claim(**{**about, **fields})


def runs(**fields):
    run = Run(**fields)
    return lambda name: run if name == "e" else None


HOLDS = Condition("e", "x is below y")
SLOPE = Value("e", "r", "1.5", interval="half")
RUN = {"rows": {"r": (1.0, 1.1, 0.9)}, "statements": {"x is below y, by far": True}}


@pytest.mark.parametrize(
    ("fields", "stored", "verdict"),
    [
        ({"tests": ("t",)}, {}, "reproduced"),
        ({"lemmas": ("L1",)}, {}, "reproduced"),
        ({"conditions": (HOLDS,)}, RUN, "reproduced"),
        ({"conditions": (HOLDS,), "substitutes": "a mouse"}, RUN, "holds on substitutes"),
        ({"values": (Value("e", "r", "1.0"),)}, RUN, "reproduced"),
        ({"values": (Value("e", "r", "1.5"),)}, RUN, "numbers differ"),
        ({"values": (SLOPE,)}, {"rows": {"r": (1.0,), "half": (0.1,)}}, "not reproduced"),
        ({"values": (SLOPE,)}, {"rows": {"r": (1.4,), "half": (0.2,)}}, "reproduced"),
        ({"values": (SLOPE,)}, {"rows": {"r": (1.0,), "half": (0.9,)}}, "inconclusive"),
        ({"conditions": (HOLDS,)}, {"statements": {"x is below y": False}}, "not reproduced"),
        ({"conditions": (HOLDS,)}, {"statements": {}}, "not tried"),
        ({"conditions": (HOLDS,)}, {**RUN, "scale": "smoke"}, "not tried"),
        ({"errata": (Erratum("e", "t", "wrong", ("t",)),), "conditions": (HOLDS,)}, RUN, "corrected"),
        ({"errata": (Erratum("e", "t", "slip"),), "tests": ("t",)}, {}, "reproduced"),
        ({"beyond": True, "experiment": "e"}, {}, "beyond the paper"),
        ({"not_tried": "no data"}, {}, "not tried"),
    ],
)  # fmt: skip
def test_every_verdict_follows_from_evidence(fields, stored, verdict):
    got = judge(claim(**fields), runs(**stored))
    assert got.verdict == verdict
    assert got.why


def test_a_claim_without_its_run_is_not_tried():
    got = judge(claim(conditions=(HOLDS,)), lambda name: None)
    assert got.verdict is Verdict.NOT_TRIED
    assert "e" in got.why


def test_noise_reproduces_nothing():
    """101 ± 184 over five seeds against 35.66: within our spread, and no evidence."""
    seeds = (427.0, 30.0, 20.0, 18.0, 10.0)
    verdict, why = compare(Value("e", "r", "35.66"), Run({"r": seeds}))
    assert verdict is Verdict.INCONCLUSIVE
    assert "35.66" in why


def test_the_last_digit_is_the_one_that_is_printed():
    assert Value("e", "r", "2.18e-5").last_digit == pytest.approx(1e-7)
    assert Value("e", "r", "1.9").last_digit == pytest.approx(0.1)
    assert Value("e", "r", "212").last_digit == 1
    run = Run({"r": (0.396,)})
    assert compare(Value("e", "r", "0.4"), run)[0] is Verdict.REPRODUCED
    assert compare(Value("e", "r", "0.400"), run)[0] is Verdict.NUMBERS_DIFFER


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6), st.integers(-1000, 1000))
def test_a_number_is_met_only_within_a_standard_error_and_two_digits(values, published):
    mean = sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / (len(values) * (len(values) - 1))) ** 0.5
    verdict, _ = compare(Value("e", "r", str(published)), Run({"r": tuple(values)}))
    if verdict is Verdict.REPRODUCED:
        assert abs(mean - published) <= (spread + 2) * (1 + 1e-9)
        assert spread <= abs(published) / 2 or published == 0
    if verdict is Verdict.NUMBERS_DIFFER:
        assert abs(mean - published) >= (spread + 2) * (1 - 1e-9)


def test_the_worst_of_what_was_tried_counts():
    assert together([Verdict.REPRODUCED, Verdict.NOT_TRIED]) is Verdict.REPRODUCED
    assert together([Verdict.REPRODUCED, Verdict.NOT_REPRODUCED]) is Verdict.NOT_REPRODUCED
    assert together([Verdict.BEYOND]) is Verdict.BEYOND
    assert set(MEANINGS) == set(Verdict)
