"""Polynomials form a commutative ring, and evaluation respects it."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.errors import InputError
from tests.cases.polynomials import KINDS, names, polynomials, random_point, random_polynomial
from tests.examples import examples


@st.composite
def triples(draw: st.DrawFn) -> tuple[Polynomial, Polynomial, Polynomial, list[Fraction]]:
    """Three polynomials in the same variables, and a point."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    d = draw(st.integers(1, 4))
    a, b, c = (random_polynomial(rng, d, rng.randint(0, 4), rng.choice(KINDS)) for _ in range(3))
    return a, b, c, random_point(rng, d, Fraction(3))


@given(triples())
def test_ring_laws(case: tuple[Polynomial, Polynomial, Polynomial, list[Fraction]]) -> None:
    a, b, c, _ = case
    zero, one = a * 0, a * 0 + 1
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a + zero == a
    assert a * one == a
    assert a - a == zero
    assert -a == zero - a
    assert 3 - a == -(a - 3)
    assert a**2 == a * a
    assert a**0 == one
    assert hash(a + b) == hash(b + a)


@given(triples())
def test_evaluation_is_a_homomorphism(
    case: tuple[Polynomial, Polynomial, Polynomial, list[Fraction]],
) -> None:
    a, b, _, x = case
    assert (a + b).at(x) == a.at(x) + b.at(x)
    assert (a * b).at(x) == a.at(x) * b.at(x)


@given(triples())
def test_evaluation_is_the_sum_of_the_terms(
    case: tuple[Polynomial, Polynomial, Polynomial, list[Fraction]],
) -> None:
    a, _, _, x = case
    expected = Fraction(0)
    for exponents, coefficient in a.terms().items():
        term = coefficient
        for c, e in zip(x, exponents, strict=True):
            term *= c**e
        expected += term
    assert a.at(x) == expected
    assert a.constant == a.at([0] * a.dimension)


@given(triples())
@settings(max_examples=examples(50))
def test_floating_evaluation_agrees_with_exact(
    case: tuple[Polynomial, Polynomial, Polynomial, list[Fraction]],
) -> None:
    a, _, _, x = case
    point = np.array([float(c) for c in x])
    exact = a.at(point)  # at the float point itself
    size = sum(abs(c) * 3 ** sum(k) for k, c in a.terms().items())
    for dtype, unit in ((np.float64, 2.0**-52), (np.longdouble, 2.0**-62)):
        computed = a.evaluate(point.astype(dtype))
        assert abs(Fraction(*computed.item().as_integer_ratio()) - exact) <= 40 * unit * size
    assert a.evaluate(point[None, None]).shape == (1, 1)


@given(polynomials(max_width=1300))
def test_a_polynomial_is_the_sum_of_its_homogeneous_parts(p: Polynomial) -> None:
    total = p * 0
    for degree in range(p.degree + 1):
        part = p.homogeneous(degree)
        assert all(sum(k) == degree for k in part.terms())
        total = total + part
    assert total == p


@given(polynomials(max_width=1300), st.randoms(use_true_random=False))
def test_on_other_variables_means_the_same(p: Polynomial, rng: random.Random) -> None:
    wider = [*p.variables, "a", "b"]
    rng.shuffle(wider)
    moved = p.on(wider)
    values = {name: Fraction(rng.randint(-9, 9), 7) for name in wider}
    assert moved.at([values[v] for v in wider]) == p.at([values[v] for v in p.variables])
    assert moved.on(p.variables) == p


def test_on_refuses_to_drop_a_variable_that_is_used() -> None:
    with pytest.raises(InputError, match="x2"):
        Polynomial.parse("x1 + x2").on(["x1"])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Polynomial.from_terms({(1.5,): 1}, ["x"]),
        lambda: Polynomial.from_terms({(1, 2): 1}, ["x"]),
        lambda: Polynomial.from_terms({(-1,): 1}, ["x"]),
        lambda: Polynomial.from_terms({(1,): float("nan")}, ["x"]),
        lambda: Polynomial.from_terms({(1,): float("inf")}, ["x"]),
        lambda: Polynomial.from_terms({(1,): "1"}, ["x"]),
        lambda: Polynomial.from_terms({(1,): 1j}, ["x"]),
        lambda: Polynomial.from_terms({(1,): 1}, ["x y"]),
        lambda: Polynomial.from_terms({(1,): 1}, ["2x"]),
        lambda: Polynomial.from_terms({(1,): 1}, [""]),
        lambda: Polynomial.from_terms({(1, 1): 1}, ["x", "x"]),
        lambda: Polynomial.parse("x").at([1, 2]),
        lambda: Polynomial.parse("x").at([float("nan")]),
        lambda: Polynomial.parse("x").evaluate(np.ones((3, 2))),
        lambda: Polynomial.parse("x").evaluate(np.float64(1)),
        lambda: Polynomial.parse("x + y").coefficient((1,)),
        lambda: Polynomial.parse("x") ** -1,
        lambda: Polynomial.parse("x") ** 0.5,  # type: ignore[operator]
        lambda: Polynomial.parse("x") + Polynomial.parse("y"),
        lambda: Polynomial.parse("x") + None,
        lambda: Polynomial.coerce(True),
        lambda: Polynomial.coerce(None),
        lambda: Polynomial.coerce(1j),
        lambda: Polynomial.coerce(float("nan")),
    ],
)
def test_what_is_not_exact_is_refused(build: object) -> None:
    with pytest.raises(InputError):
        build()  # type: ignore[operator]


def test_numbers_of_every_kind_are_taken_exactly() -> None:
    x = Polynomial.parse("x")
    for number in (0.1, np.float32(0.1), np.longdouble("0.1"), Decimal("0.1"), Fraction(1, 10)):
        assert (x * number).coefficient((1,)) == Fraction(*number.as_integer_ratio())
        assert x.at([number]) == Fraction(*number.as_integer_ratio())
    assert x.at([np.int64(3)]) == 3


def test_constants_may_have_no_variables() -> None:
    p = Polynomial.parse("3/4 - 1")
    assert (p.dimension, p.degree, p.constant, p.at([])) == (0, 0, Fraction(-1, 4), Fraction(-1, 4))
    assert p.evaluate(np.zeros((5, 0))).tolist() == [-0.25] * 5
    assert Polynomial.parse("x - x").degree == 0
    assert len(Polynomial.parse("x - x")) == 0
    assert names(2) == ["x1", "x2"]
