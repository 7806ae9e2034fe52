"""The size of a polynomial is predicted, and one that is too large is refused before it is built."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import prod
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings

from exactformer.algebra import Polynomial, Target, limits, parsing
from exactformer.algebra.limits import MAX_TERMS, MAX_VARIABLES, Work, check_power, most_terms
from exactformer.errors import InputError, ParseError, SizeError
from tests.cases.polynomials import polynomials
from tests.examples import examples

FORTY = [f"x{i}" for i in range(40)]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of terms of everything that enters a product of groups."""
    seen: list[int] = []
    checked = limits.check_product

    def spy(left: Any, right: Any, where: str = "") -> None:
        seen.extend((len(left), len(right)))
        checked(left, right, where)

    monkeypatch.setattr(parsing, "check_product", spy)
    return seen


def test_no_polynomial_beyond_the_limit_is_ever_multiplied_out(built: list[int]) -> None:
    text = "*".join(f"(1+{v})" for v in FORTY)
    with pytest.raises(SizeError, match=r"2,097,152 terms, the limit is 2,000,000") as caught:
        Polynomial.parse(text)
    assert "column" in str(caught.value)
    assert max(built) == 2**20 <= MAX_TERMS


def test_products_at_the_limit_are_still_multiplied_out() -> None:
    assert len(Polynomial.parse("*".join(f"(1+{v})" for v in FORTY[:16]))) == 2**16
    assert len(Polynomial.parse("(x+y+z+w+1)^9 (x+y+z+w+1)^9")) == 7315


def test_sums_of_large_products_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TERMS", 5000)
    product = "*".join(f"(1+x{i})" for i in range(12))
    same = "+".join(f"{k} {product}" for k in range(1, 4))
    assert len(Polynomial.parse(same)) == 2**12
    with pytest.raises(SizeError, match=r"8,192 terms, the limit is 5,000"):
        Polynomial.parse(f"{product} + y {product}")


def test_many_variables_are_counted_as_memory() -> None:
    half = MAX_VARIABLES // 2
    sums = ["+".join(f"{name}{i}^200" for i in range(half)) for name in "xy"]
    with pytest.raises(SizeError, match=r"500,000,000 bytes|bytes of exponents"):
        limits.check_terms(600_000, MAX_VARIABLES, 200)
    assert len(Polynomial.parse(f"({sums[0]}) ({'+'.join(['y0', 'y1'])})")) == 2 * half


@given(polynomials(), polynomials())
@settings(max_examples=examples(100), deadline=None)
def test_the_prediction_is_never_below_the_count(one: Polynomial, two: Polynomial) -> None:
    if one.dimension == two.dimension and len(one) and len(two):
        product = one.flint * two.flint
        degrees = [
            int(a) + int(b) for a, b in zip(one.flint.degrees(), two.flint.degrees(), strict=True)
        ]
        assert len(product) <= most_terms(len(one) * len(two), degrees, one.degree + two.degree)
    if len(one) and len(one) < 40:
        assert len(one.flint**3) <= check_power(one.flint, 3)


@pytest.mark.parametrize(
    ("pairs", "degrees", "total", "terms"),
    [
        (2**40, [1] * 40, 40, 2**40),
        (10**6, [99, 99], 99, 5050),
        (10**6, [1000], 1000, 1001),
        (6, [50, 50, 50], 100, 6),
        (None, [10**6], 10**6, 10**6 + 1),
    ],
)
def test_the_least_of_three_counts_is_taken(
    pairs: int | None, degrees: list[int], total: int, terms: int
) -> None:
    assert most_terms(pairs, degrees, total) == terms


def test_reading_stops_at_the_first_variable_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_names: list[str] = []
    order = parsing.natural_order
    monkeypatch.setattr(
        parsing, "natural_order", lambda name: sorted_names.append(name) or order(name)
    )
    with pytest.raises(SizeError, match=r"1,001 variables or more, the limit is 1,000"):
        Polynomial.parse("+".join(f"x{i}" for i in range(100_000)))
    assert not sorted_names


@pytest.mark.parametrize(
    "make", [lambda v: Polynomial.parse("x0", v), lambda v: Polynomial.parse("x0").on(v)]
)
def test_more_names_than_variables_can_be_are_refused(make: Any) -> None:
    with pytest.raises(SizeError, match="1,000,000 variables"):
        make([f"x{i}" for i in range(1_000_000)])


def test_a_name_has_a_longest_length() -> None:
    assert Polynomial.parse("x" * 1000).degree == 1
    for letter in "xα":
        with pytest.raises(ParseError, match=r"1,001 characters, the limit is 1,000"):
            Polynomial.parse(letter * 1001 + "+ y")


@pytest.mark.parametrize(
    "text",
    ["x^1000001", "1e10001", "9" * 60_301, "9^100000", "(" * 101 + "x" + ")" * 101, "x^999999 x x"],
)
def test_every_limit_names_a_way_out(text: str) -> None:
    with pytest.raises(ParseError, match=r";|\. "):
        Polynomial.parse(text)


class TestSymPy:
    """Expressions go through the limits of texts."""

    def test_products_are_not_multiplied_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sympy, "Poly", _never)
        with pytest.raises(SizeError, match="terms, the limit is"):
            Polynomial.from_sympy(prod(1 + sympy.Symbol(v) for v in FORTY))

    def test_nor_by_sympy_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sympy, "Poly", _Never)
        root = sympy.sqrt(2)
        factors = prod(root + sympy.Symbol(v) for v in FORTY)
        with pytest.raises(SizeError, match=r"1\.1e\+12 terms.*simplify"):
            Polynomial.from_sympy(factors)

    def test_powers(self) -> None:
        x, y = sympy.symbols("x y")
        with pytest.raises(SizeError, match="degree"):
            Polynomial.from_sympy(x ** (10**9))
        with pytest.raises(SizeError, match="bytes of coefficients"):
            Polynomial.from_sympy((x + 1) ** 900_000)
        with pytest.raises(SizeError, match="terms"):
            Polynomial.from_sympy((x + y + 1) ** 5000)

    def test_what_is_small_is_the_same_polynomial(self) -> None:
        x, y = sympy.symbols("x y")
        root = sympy.sqrt(2)
        for expression in (
            (x + y) ** 7 * (x - y) ** 2 / 3 + sympy.Float(0.1),
            (root + 1) * (root - 1) * x,
            sympy.Poly(x**2 + y, x, y),
            sympy.Add(*(i * x**i for i in range(500))),
        ):
            poly = sympy.Poly(sympy.nsimplify(expression.as_expr(), rational=False), x, y)
            ours = Polynomial.from_sympy(expression, ["x", "y"])
            for exponents, coefficient in poly.terms():
                assert float(ours.coefficient(exponents)) == pytest.approx(float(coefficient))
            assert len(ours) == len(poly.terms())


class _Never:
    def __init__(self, *args: object, **options: object) -> None:
        raise AssertionError("SymPy was asked to multiply out")


_never = _Never


def test_terms_and_arrays_go_through_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SizeError, match="degree"):
        Polynomial.from_terms({(10**9,): 1}, ["x"])
    with pytest.raises(SizeError, match="bits"):
        Polynomial.from_terms({(1,): 1 << 300_000}, ["x"])
    with pytest.raises(InputError, match="decimal exponent"):
        Polynomial.from_terms({(1,): Decimal("1e999999999")}, ["x"])
    monkeypatch.setattr(limits, "MAX_TERMS", 50)
    with pytest.raises(SizeError, match=r"100 terms, the limit is 50"):
        Polynomial.from_array(np.ones((10, 10)))
    sparse = np.zeros((1000, 1000))
    sparse[3, 4] = 2
    assert str(Polynomial.from_array(sparse)) == "2 x1^3 x2^4"


def test_operators_go_through_the_same_limits() -> None:
    x = Polynomial.parse("x + 1")
    wide = Polynomial.parse("+".join(FORTY) + "+ 1")
    with pytest.raises(SizeError, match="degree"):
        x ** (10**7)
    with pytest.raises(SizeError, match="bytes of coefficients"):
        x**900_000
    with pytest.raises(SizeError, match="terms"):
        wide**40
    with pytest.raises(SizeError, match="terms"):
        wide**4 * wide**4
    assert len(wide**2) == 861


def test_a_shift_is_counted_before_it_is_carried_out() -> None:
    product = Polynomial.parse(" ".join(FORTY))
    with pytest.raises(SizeError, match="around the centre of its domain"):
        product.composed([1] * 40, [1] * 40)
    assert len(product.composed([0] * 40, [2] * 40)) == 1
    assert len(product.composed([1] * 10 + [0] * 30, [1] * 40)) == 2**10


def test_components_of_a_vector_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exactformer.algebra.target.Work", lambda: Work(100_000))
    part = "(x+y+z+w+v+u)^12"
    assert Target.coerce(f"{part}; {part}").degree == 12
    for three in (";".join([part] * 3), [part] * 3):
        with pytest.raises(SizeError, match="operations, the limit is 1e"):
            Target.coerce(three)


def test_a_vector_is_one_text() -> None:
    with pytest.raises(SizeError, match="characters"):
        Target.coerce("x;" + " " * 10_000_001)
