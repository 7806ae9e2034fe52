"""Softmax models: the law with an error, what Coq accepts, and what it refuses."""

import re
from fractions import Fraction
from math import tanh
from pathlib import Path

import pytest

import exactformer as ef
from exactformer.coq.check import check_law, compiled
from exactformer.coq.logistic import residual, tangent
from exactformer.coq.prove import checked, law_of
from exactformer.errors import CertificationError
from tests.coq.laws import together, verdicts

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
ASSUMPTIONS = (Path(__file__).parent / "assumptions_softmax.txt").read_text().strip()


@pytest.fixture(scope="module")
def model():
    return ef.compile("x^3 + 2 x y", radius=2, construction="softmax", tolerance=1e-3)


def stated_error(theorem: str) -> float:
    top, bottom = re.search(r"agree_within \((\d+) / (\d+)\)", theorem).groups()
    return int(top) / int(bottom)


def test_the_law_states_an_error_in_plain_notation(model):
    theorem = law_of(model).theorem
    error = model.certificate.errors["float64"]
    assert re.sub(r"within \(.*?\)", "within (e)", theorem) == (
        "Theorem law : forall x y : R,\n"
        "  x ^ 2 + y ^ 2 <= 2 ^ 2 ->\n"
        "  agree_within (e) (run_softmax model [x; y])\n"
        "  [x ^ 3 + 2 * x * y]."
    )
    certified = error.truncation + error.leakage
    assert 2 * certified <= stated_error(theorem) <= 2.2 * certified


def test_the_guide_shows_theorems_as_they_are_written():
    guide = (Path(__file__).parents[2] / "docs/guide/coq.md").read_text()
    soft = law_of(ef.compile("x^2 + 3 x y", radius=2, construction="softmax")).theorem
    rounded = law_of(ef.compile("x^2 + 3 x y", radius=2), "float64").theorem
    assert soft in guide
    assert rounded.split("\n\n")[1] in guide


def test_coq_accepts_a_softmax_model(coq, model, tmp_path):
    law = ef.prove(model, tmp_path / "law.v", check=True)
    assert law.checked.assumptions.split() == ASSUMPTIONS.split()
    assert law.claim in model.certificate.claims


@pytest.mark.parametrize("upto", ["1/4", "23/16", "19/4"])
def test_the_guess_is_close_to_tanh(upto):
    guess = tangent(Fraction(upto), Fraction(1, 2**40))
    assert residual(guess) <= Fraction(1, 2**40)
    for k in range(-16, 17):
        u = float(guess.upto) * k / 16
        value = sum(float(c) * u ** (2 * j + 1) for j, c in enumerate(guess.odd))
        assert abs(value - tanh(u / 2)) < 1e-9


def test_large_logits_are_refused():
    with pytest.raises(CertificationError, match="logits up to 8 are too large"):
        tangent(Fraction(8), Fraction(1, 2**10))


ALTERATIONS = [
    (r"agree_within \((\d+) / ", r"agree_within (\1 / 10000", "TooFar"),
    (r"2 \* x \* y\]", "3 * x * y]", "NotTarget"),
    (r"x \* y\]", "x * y; x]", "BadCount"),
    (
        r"region : domain := Ball \[0; 0\] 2",
        "region : domain := Ball [0; 0] 3",
        "TooFar|Uncombined",
    ),
    (r"upto := \((\d+)", r"upto := (9\1", "BadGuess"),
    (r"\[0 \|-> (\d+) # ", r"[0 |-> 1\1 # ", "TooFar|NotTarget|Uncombined|Irregular"),
    (r"\|-> -64", "|-> -4", "Unattended"),
    (r"\[\[(\(\d+ # \d+\)|\d+); ", r"[[", "BadRow"),
]


def test_altered_laws_are_refused(coq, model):
    text = law_of(model).text
    altered = [re.sub(old, new, text, count=1) for old, new, _ in ALTERATIONS]
    assert text not in altered
    for said, (*_, expected) in zip(verdicts(coq, altered), ALTERATIONS, strict=True):
        assert re.fullmatch(expected, said)


def test_a_wider_statement_does_not_follow(coq, model, tmp_path):
    text = law_of(model).text
    wider = text.replace("<= 2 ^ 2", "<= 3 ^ 2")
    answer = compiled(coq, together([wider], "Proof. intros. Fail certify region. Abort."))
    assert answer.returncode == 0, answer.stderr
    (tmp_path / "law.v").write_text(wider)
    with pytest.raises(CertificationError, match="is not the law of this model"):
        checked(law_of(model), tmp_path / "law.v", model)


@pytest.mark.slow
def test_a_refusal_is_told_in_our_own_words(coq, model):
    text = re.sub(r"agree_within \((\d+) / ", r"agree_within (\1 / 10000", law_of(model).text)
    with pytest.raises(CertificationError, match="output 1: the error is not shown to be as small"):
        check_law(text)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [None, 1e-4])
def test_the_running_example_is_proved(coq, tolerance):
    model = ef.compile(F2, radius=4, construction="softmax", tolerance=tolerance)
    assert check_law(law_of(model).text).assumptions.split() == ASSUMPTIONS.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("x^3/7 + 3 x y - 1/3", {"domain": [(0, 1), (-1, 3)]}),
        ("x^2 - y^2; x y; 3", {"radius": "1/3"}),
        ("2 x - 1", {"radius": 5}),
        ("x^2 + tangent", {"variables": ["tangent", "x"], "radius": 1}),
        ("x^4", {"radius": 2, "dtype": "float32"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_boxes_vectors_formats(coq, target, options):
    check_law(law_of(ef.compile(target, construction="softmax", **options)).text)
