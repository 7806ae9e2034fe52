"""No certificate of a polynomial model is false, whatever has been done to the model.

To replay a seed: ``python -m tests.adversary polynomials --seed SEED --count 1``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

import exactformer.errors
from exactformer.algebra import Target
from exactformer.core.domain import Ball
from exactformer.core.formats import FloatFormat
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.compile import local_forms
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.proof.literal_rounding import RoundingBound
from tests.adversary import tiny_polynomials
from tests.adversary.engine import Outcome, Tally, search
from tests.adversary.interpreter import polynomial_at, run_rationally
from tests.adversary.points import exact_points
from tests.adversary.polynomial_bases import base
from tests.adversary.polynomial_refuting import refutation

QUICK = range(50)
FOUND = (664, 1000, 3176, 3435, 3453, 3496, 3804, 4423, 4899, 1_064_774, 1_097_020)
"""Seeds that were findings once: selection, softmax errors, the edge of the domain, empty sums."""
SLOW = (*range(50, 250), *range(1_000_000, 1_008_000))


def check(tally: Tally, refused: float = 0.25) -> None:
    """Nothing is false, nothing crashes, and enough is certified for that to mean something."""
    assert not tally.findings, str(tally)
    assert tally.certified_share > 0.25
    assert tally.outcomes[Outcome.REFUSED] > refused * tally.count
    for name in tally.checks:
        kind = getattr(exactformer.errors, name.partition(":")[0])
        assert issubclass(kind, exactformer.errors.ExactformerError)


def test_no_certificate_of_a_mutated_blueprint_is_false() -> None:
    check(search("polynomials", [*QUICK, *FOUND]))


@pytest.mark.slow
def test_no_certificate_of_many_mutated_blueprints_is_false() -> None:
    tally = search("polynomials", SLOW, jobs=2)
    check(tally)
    certified = {kind for kind, counts in tally.kinds.items() if counts[Outcome.CERTIFIED]}
    assert certified >= tally.kinds.keys() - {"misshapen"}


def test_no_certificate_of_a_blueprint_with_tiny_numbers_is_false() -> None:
    check(search("tiny-polynomials", range(40)), refused=0.1)


@pytest.mark.slow
def test_no_certificate_of_many_blueprints_with_tiny_numbers_is_false() -> None:
    tally = search("tiny-polynomials", range(40, 2000), jobs=2)
    check(tally, refused=0.1)
    assert tally.kinds.keys() >= tiny_polynomials.MUTATIONS.keys()


def test_the_search_notices_underflow_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """These two are run where numbers below the normal ones are taken for zero."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    torch.set_flush_denormal(False)
    monkeypatch.setattr(FloatFormat, "tiny", property(lambda self: 0.0))
    assert [verdict.seed for verdict in search("tiny-polynomials", [1, 84]).findings] == [1, 84]


def model() -> tuple[Blueprint, Target, PolynomialCertificate]:
    """A small honest model."""
    target = Target.coerce("x1^3 + 2 x1 x2")
    ball = Ball(Fraction(2))
    blueprint = construct("doubling", local_forms(target, ball), ball, target)
    return blueprint, target, certify_blueprint(blueprint, target)


def test_the_search_notices_a_target_that_is_off_by_little() -> None:
    blueprint, _, certificate = model()
    wrong = Target.coerce(f"x1^3 + {2 + Fraction(1, 2**60)} x1 x2")
    assert "value" in (refutation(random.Random(0), blueprint, wrong, certificate) or "")


@pytest.mark.parametrize("seed", range(8))
def test_the_search_notices_a_bound_that_is_too_small(seed: int) -> None:
    blueprint, target, certificate = model()
    none = dict.fromkeys(certificate.rounding, RoundingBound(0.0, 0.0))
    claimed = replace(certificate, rounding=none, fused=none)
    assert "within 0" in (refutation(random.Random(seed), blueprint, target, claimed) or "")


@pytest.mark.parametrize("index", range(40))
def test_the_search_runs_honest_models_as_they_are(index: int) -> None:
    blueprint, target, origin = base(index)
    if target is None or origin == "softmax":
        return
    for point in exact_points(blueprint, random.Random(index)):
        wanted = tuple(polynomial.at(point) for polynomial in target)
        assert run_rationally(blueprint, point).outputs == wanted
        assert polynomial_at(blueprint, point, selves=False) == target
