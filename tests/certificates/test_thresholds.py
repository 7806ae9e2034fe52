"""Proofs at their thresholds: what holds with nothing to spare passes, a tie or a trifle less fails."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from exactformer.algebra import Target
from exactformer.blueprint import Ball, Blueprint, Box, Domain
from exactformer.certificates import certify_blueprint
from exactformer.certificates.identity import prove_identity
from exactformer.errors import IdentityError
from exactformer.execution.symbolic import run_symbolic
from exactformer.model.compiling import draw

CENTRED: list[Domain] = [
    Ball(Fraction(2), (Fraction(1, 3), Fraction(-5))),
    Box((Fraction(3), Fraction(-2, 7)), (Fraction(1, 2), Fraction(4))),
]


def prove(blueprint: Blueprint, target: Target) -> int:
    return prove_identity(run_symbolic(blueprint, blueprint.domain), target)


@pytest.mark.parametrize("domain", CENTRED, ids=["ball", "box"])
@pytest.mark.parametrize("construction", ["doubling", "scaled"])
def test_a_model_is_the_target_whatever_the_centre(domain: Domain, construction: str) -> None:
    """F·x = F·(x − c) + F·c: every entry of F meets the coordinate of c that belongs to it."""
    target = Target.coerce("3 x1^3 + 2 x1 x2 - 7 x2^2 + 5")
    blueprint = draw(target, domain, construction)
    moved = replace(domain, centre=tuple(c + Fraction(1, 7) for c in domain.centre))
    for round_it in (domain, moved):
        run = run_symbolic(blueprint, round_it)
        assert prove_identity(run, target) == 4
        near = Target.coerce(f"3 x1^3 + 2 x1 x2 - 7 x2^2 + {5 + Fraction(1, 2**70)}")
        with pytest.raises(IdentityError, match="differs"):
            prove_identity(run, near)


def test_a_model_with_another_number_of_outputs_is_not_the_target() -> None:
    """A vector that begins with the target is not the target, nor is the beginning of it."""
    one, two = Target.coerce(["x1^2 + x2"]), Target.coerce(["x1^2 + x2", "x1 x2"])
    pair = draw(two, Ball(Fraction(1)), "doubling")
    assert prove(pair, two) == 3
    with pytest.raises(IdentityError, match="2 outputs, the target 1"):
        prove(pair, one)
    first = replace(pair, readouts=pair.readouts[:1])
    with pytest.raises(IdentityError, match="1 outputs, the target 2"):
        prove(first, two)
    with pytest.raises(IdentityError):
        certify_blueprint(first, two)
