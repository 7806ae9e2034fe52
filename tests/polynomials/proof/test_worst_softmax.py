"""Bounds of softmax transformers against the worst arithmetic that is assumed of kernels."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.formats import FORMATS
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.proof.softmax_error import softmax_bound
from exactformer.polynomials.proof.softmax_symbolic import run_softmax
from tests.cases.worst_rounding import worst
from tests.cases.worst_softmax import run_softmax_in


def model(text: str, heads: int, span: str, radius: int = 1) -> tuple[Polynomial, Blueprint]:
    p = Polynomial.parse(text)
    return p, softmax(ridge_form(p), Fraction(radius), Extrapolation(heads, Fraction(span)))


CASES = {
    "one head": model("x^2", 1, "1/4"),
    "two heads": model("x^2", 2, "1/4"),
    "three heads": model("x^2", 3, "1/512"),
    "a wide span": model("x^2", 3, "6"),
    "a radius": model("x^2 + x", 2, "1/4", 3),
    "two blocks": model("x^3", 1, "1/4"),
}


@pytest.mark.spread(6)
@pytest.mark.parametrize("format", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_no_arithmetic_that_is_assumed_exceeds_the_bound(name: str, format: str) -> None:
    p, blueprint = CASES[name]
    claimed = softmax_bound(run_softmax(blueprint, blueprint.domain), FORMATS[format])
    x = [blueprint.radius]
    found = worst(partial(run_softmax_in, blueprint=blueprint, x=x), p.at(x), FORMATS[format])
    assert claimed.total is not None
    assert Fraction(claimed.total) / 4 <= found <= Fraction(claimed.total)
