"""The certificate of a program: what it takes from proofs in one arithmetic and another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from exactformer.core.layers import Rule
from exactformer.errors import InputError
from exactformer.programs import library
from exactformer.programs.constructions import construct
from exactformer.programs.proof import certificate as module
from exactformer.programs.proof.induction import Outcome
from exactformer.programs.tabulation import tabulated
from tests.cases.programs import certify

ERRORS = {None: 0.25, "float64": 0.3125, "float32": 0.375, "bfloat16": 0.125}


def certified(
    monkeypatch: pytest.MonkeyPatch, rule: Rule, limit: float = 0.5
) -> tuple[Any, list[Any]]:
    """Return a certificate, and a list of the arithmetics in which a proof was asked for."""
    asked: list[Any] = []

    def prove(*given: Any) -> Outcome:
        name = None if given[-1] is None else given[-1].name
        asked.append(name)
        return Outcome(ERRORS[name], limit, ())

    monkeypatch.setattr(module, "prove_program", prove)
    program, analysis = tabulated(library.make_reverse(), "ab", 2)
    blueprint = construct(program, analysis, Rule.HARD_MAX, Fraction(1), True)
    blueprint = replace(blueprint, selection=replace(blueprint.selection, rule=rule))
    return certify(blueprint, program), asked


def test_a_program_is_proven_once_in_every_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, asked = certified(monkeypatch, Rule.HARD_MAX)
    assert asked == [None, "float64"]
    for dtype in (None, "float32", "float64", "float32"):
        certificate.bound(dtype)
    assert asked == [None, "float64", "float32"]


def test_a_bound_is_the_larger_of_exact_and_rounded_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, _ = certified(monkeypatch, Rule.HARD_MAX)
    assert float(certificate.bound()) == 0.3125
    assert certificate.bound().parts == {"selection": 0.25, "rounding": 0.0625}
    assert certificate.bound("bfloat16").parts == {"selection": 0.25, "rounding": 0.0}
    assert certificate.bound("float32").parts == {"selection": 0.25, "rounding": 0.125}
    assert certificate.bound("float32", "literal") == certificate.bound("float32")
    with pytest.raises(InputError, match="executor"):
        certificate.bound("float32", "fused")


def test_only_hard_maxima_that_decode_have_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    hard, _ = certified(monkeypatch, Rule.HARD_MAX)
    soft, _ = certified(monkeypatch, Rule.SOFTMAX)
    assert hard.zero_error
    assert not soft.zero_error
    assert soft.bound().parts == {"softmax": 0.25, "rounding": 0.0625}
    assert not certified(monkeypatch, Rule.HARD_MAX, limit=0.0)[0].zero_error


@pytest.mark.parametrize("sharpness", [64, 2000, 10**6])
def test_softmax_is_never_said_to_leave_nothing(sharpness: int) -> None:
    program, analysis = tabulated(library.make_reverse(), "ab", 2)
    blueprint = construct(program, analysis, Rule.SOFTMAX, Fraction(sharpness), True)
    certificate = certify(blueprint, program)
    assert certificate.bound().parts["softmax"] > 0
    assert "within 0 " not in str(certificate)
