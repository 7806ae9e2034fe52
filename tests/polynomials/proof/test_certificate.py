"""The certificate as a document: JSON holds it without loss, and it never claims what is not there."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.errors import InputError, RoundingError
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.certificate import EXECUTORS, PolynomialCertificate
from exactformer.polynomials.proof.certify import certify_blueprint
from tests.cases.polynomials import polynomials, radii
from tests.examples import examples


def certificate(
    text: str, radius: Fraction | int = 1, construction: str = "scaled"
) -> PolynomialCertificate:
    p = Polynomial.parse(text)
    return certify_blueprint(CONSTRUCTIONS[construction](ridge_form(p), Fraction(radius)), p)


@given(polynomials(max_width=12), radii(), st.sampled_from(sorted(CONSTRUCTIONS)))
@settings(max_examples=examples(25))
def test_json_holds_a_certificate_without_loss(
    p: Polynomial, radius: Fraction, construction: str
) -> None:
    made = certify_blueprint(CONSTRUCTIONS[construction](ridge_form(p), radius), p)
    text = json.dumps(made.to_dict(), allow_nan=False)
    assert PolynomialCertificate.from_dict(json.loads(text)) == made
    assert str(made)
    for bounds in (made.rounding, made.fused):
        for bound in bounds.values():
            assert (bound.value is None) == bool(bound.reason)
            assert bound.value is None or (math.isfinite(bound.value) and bound.value >= 0)


@pytest.mark.parametrize(
    ("text", "radius"),
    [
        ("x^8", Fraction(2) ** 500),
        ("x^8", Fraction(2) ** -500),
        ("1e400 x", 1),
        ("1e-400 x", 1),
        ("1e400 x - 1e400 y", 1),
        ("1e300 x^2 - 1e300 y^2", Fraction(10) ** 10),
        ("0 x", Fraction(2) ** 500),
    ],
)
def test_extremes_are_certified_and_say_what_floats_cannot_hold(
    text: str, radius: Fraction | int
) -> None:
    made = certificate(text, radius)
    assert made.zero_error
    json.dumps(made.to_dict(), allow_nan=False)
    assert str(made)
    for bounds in (made.rounding, made.fused):
        for bound in bounds.values():
            assert (bound.value is None) == bool(bound.reason)


def test_a_bound_that_does_not_exist_raises() -> None:
    made = certificate("1e40 x")
    for executor in EXECUTORS:
        with pytest.raises(RoundingError, match="float32"):
            made.bound("float32", executor)
        assert made.bound("float64", executor) > 0
    assert made.bound("float64") == max(made.bound("float64", e) for e in EXECUTORS)
    with pytest.raises(InputError):
        made.bound("int8")
    with pytest.raises(InputError):
        made.bound("float64", "exact")


def test_words_that_are_no_certificate_are_refused() -> None:
    good = certificate("x").to_dict()
    for key in good:
        if key != "zero_error":
            with pytest.raises(InputError):
                PolynomialCertificate.from_dict({k: v for k, v in good.items() if k != key})
    with pytest.raises(InputError):
        PolynomialCertificate.from_dict({**good, "rounding": {"float64": {}}})
    with pytest.raises(InputError):
        PolynomialCertificate.from_dict({**good, "rounding": 3})


def test_certifying_twice_gives_the_same_certificate() -> None:
    rng = random.Random(0)
    p = Polynomial.parse(f"x^3 + {rng.randint(1, 9)} x y + 1")
    blueprint = scaled(ridge_form(p, "spread"), Fraction(2))
    assert certify_blueprint(blueprint, p) == certify_blueprint(blueprint, p)


def test_one_block_is_not_several() -> None:
    assert "1 token, 1 block\n" in str(certificate("x^2"))
    assert "1 token, 2 blocks\n" in str(certificate("x^3"))
