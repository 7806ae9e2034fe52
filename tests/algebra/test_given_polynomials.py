"""Polynomials as other libraries hold them: the same rational numbers come out, or a refusal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.numpy_polynomials import MAX_SERIES_DEGREE
from exactformer.errors import InputError, NotPolynomialError, SizeError
from tests.cases.polynomials import polynomials
from tests.examples import examples

x, y, t = sympy.symbols("x y t")
floats = st.floats(allow_nan=False, allow_infinity=False)
series = st.lists(floats, min_size=1, max_size=12)

THEIRS = {
    Chebyshev: sympy.chebyshevt,
    Legendre: sympy.legendre,
    Hermite: sympy.hermite,
    HermiteE: lambda n, u: (
        sympy.Rational(1, 2 ** (n // 2))
        * sympy.expand(sympy.hermite(n, u / sympy.sqrt(2)) / sympy.sqrt(2) ** (n % 2))
    ),
    Laguerre: sympy.laguerre,
}


def exact(values: list[float]) -> dict[tuple[int, ...], Fraction]:
    return {(k,): Fraction(v) for k, v in enumerate(values) if v}


@given(series)
def test_poly1d_has_its_constant_last(coefficients: list[float]) -> None:
    assert Polynomial.coerce(np.poly1d(coefficients[::-1])).terms() == exact(coefficients)


@given(series)
def test_a_power_series_has_its_constant_first(coefficients: list[float]) -> None:
    assert Polynomial.coerce(np.polynomial.Polynomial(coefficients)).terms() == exact(coefficients)


@pytest.mark.spread(3)
@pytest.mark.parametrize("kind", THEIRS)
@given(coefficients=series, ends=st.tuples(floats, floats, floats, floats))
@settings(max_examples=examples(25))
def test_a_series_is_the_sum_that_sympy_knows_its_domain_and_window_included(
    kind: type, coefficients: list[float], ends: tuple[float, float, float, float]
) -> None:
    """Exact values at rational points, as many as determine a polynomial of this degree."""
    low, high, bottom, top = map(Fraction, ends)
    if low == high:
        return
    found = Polynomial.coerce(kind(coefficients, domain=ends[:2], window=ends[2:]))
    for point in range(len(coefficients)):
        u = bottom + (top - bottom) / (high - low) * (point - low)
        rational = sympy.Rational(u.numerator, u.denominator)
        value = sum(
            Fraction(c) * _fraction(THEIRS[kind](n, rational)) for n, c in enumerate(coefficients)
        )
        assert found.at([point]) == value


def _fraction(value: sympy.Expr) -> Fraction:
    return Fraction(int(value.p), int(value.q))


@pytest.mark.parametrize("kind", [np.polynomial.Polynomial, *THEIRS])
def test_a_series_has_the_values_that_numpy_gives_it(kind: type) -> None:
    rng = np.random.default_rng(0)
    theirs = kind(rng.normal(size=6), domain=[-2, 3])
    points = rng.uniform(-2, 3, size=20)
    ours = Polynomial.coerce(theirs).evaluate(points[:, None])
    np.testing.assert_allclose(ours, theirs(points), rtol=1e-10, atol=1e-10)


def test_numpy_names_are_kept_and_the_nameless_take_the_only_one() -> None:
    named = np.polynomial.Polynomial([0, 1], symbol="s")
    assert Polynomial.coerce(named).variables == ("s",)
    assert Polynomial.coerce(np.poly1d([1, 0], variable="t")).variables == ("t",)
    assert Polynomial.coerce(np.poly1d([1, 0]), ["speed"]).variables == ("speed",)
    assert Polynomial.coerce(np.poly1d([1, 0]), ["y", "x"]).terms() == {(0, 1): 1}
    with pytest.raises(InputError, match="uses s"):
        Polynomial.coerce(named, ["t"])


@pytest.mark.parametrize(
    "bad",
    [
        np.poly1d([1j, 1]),
        np.poly1d([np.nan, 1]),
        np.polynomial.Polynomial([1, np.inf]),
        Chebyshev([1, 2], domain=[1, 1]),
        Chebyshev([1, 2], domain=[0, np.inf]),
    ],
    ids=["complex", "nan", "infinite", "a point", "a ray"],
)
def test_numpy_polynomials_that_are_not_exact_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        Polynomial.coerce(bad)


def test_a_series_has_a_highest_degree() -> None:
    with pytest.raises(SizeError, match="1,001"):
        Polynomial.coerce(Chebyshev([0] * (MAX_SERIES_DEGREE + 1) + [1]))
    assert Polynomial.coerce(np.polynomial.Polynomial([0] * 5000 + [1])).degree == 5000


@given(polynomials(max_width=300, dense_limit=40))
@settings(max_examples=examples(60))
def test_sympy_poly_and_dict_and_back(p: Polynomial) -> None:
    symbols = [sympy.Symbol(name) for name in p.variables]
    if symbols:
        poly = sympy.Poly(p.to_sympy(), *symbols, domain="QQ")
        assert Polynomial.coerce(poly) == p
        assert Polynomial.coerce(poly.as_dict(), p.variables) == p
        assert Polynomial.coerce(sympy.Lambda(tuple(symbols), p.to_sympy())) == p
    assert Polynomial.coerce(p.terms(), p.variables) == p


def test_a_sympy_poly_keeps_the_order_of_its_generators() -> None:
    p = Polynomial.coerce(sympy.Poly(x**2 + 3 * y, y, x))
    assert p.variables == ("y", "x")
    assert p.terms() == {(0, 2): 1, (1, 0): 3}
    assert Polynomial.coerce(sympy.Poly(x * y, x)).variables == ("x", "y")
    assert Target.coerce([sympy.Poly(y, y, x), sympy.Poly(x, y, x)]).variables == ("y", "x")


def test_a_poly_over_a_finite_field_is_not_read_as_rational() -> None:
    with pytest.raises(InputError, match="modulo 7"):
        Polynomial.coerce(sympy.Poly(x**2 + 8, x, modulus=7))


def test_dicts_name_monomials_by_their_exponents() -> None:
    assert Polynomial.coerce({(2, 0): 1, (1, 1): 0.5}) == Polynomial.parse("x1^2 + 0.5 x1 x2")
    assert Polynomial.coerce({(2, 0): 1}, ["y", "x"]) == Polynomial.parse("y^2", ["y", "x"])
    assert Polynomial.coerce({0: 1, 3: Fraction(1, 3)}) == Polynomial.parse("1 + 1/3 x^3")
    assert Polynomial.coerce({}, ["x"]) == Polynomial.parse("0 x")
    for bad in ({}, {(1,): 1, (1, 2): 1}, {"x": 1}, {(0.5,): 1}, {(1,): "1"}, {(-1,): 1}):
        with pytest.raises(InputError):
            Polynomial.coerce(bad)


def test_arrays_in_several_variables_follow_polyval2d() -> None:
    assert Polynomial.coerce(np.array([[1, 2], [3, 4]])) == Polynomial.parse(
        "1 + 2 x2 + 3 x1 + 4 x1 x2"
    )
    assert Polynomial.coerce(np.array([[0, 1], [1, 0]]), ["u", "v"]) == Polynomial.parse("u + v")


@pytest.mark.parametrize("shape", [(3,), (1,), (3, 1), (1, 4), (2, 1, 2)])
def test_arrays_that_people_read_in_two_ways_are_refused_with_the_way_out(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(InputError, match=r"np\.poly1d|Polynomial\.from_array"):
        Target.coerce(np.ones(shape))


@pytest.mark.parametrize("numbers", [[1, 2, 3], (0.5,), [Fraction(1, 2), np.float64(3)]])
def test_a_list_of_numbers_is_refused(numbers: object) -> None:
    with pytest.raises(InputError, match="coefficients of a polynomial or a constant vector"):
        Target.coerce(numbers)


def test_lists_mix_what_people_have() -> None:
    target = Target.coerce(
        ["x^2", sympy.Poly(x * y, x, y), np.poly1d([1, 0]), Polynomial.parse("y"), x / 3, 2, 0.5]
    )
    assert str(target) == "x^2; x y; x; y; 1/3 x; 2; 1/2"
    assert target.variables == ("x", "y")


@pytest.mark.parametrize(
    "vector",
    [
        sympy.Matrix([x**2, x * y]),
        sympy.Matrix([[x**2, x * y]]),
        sympy.ImmutableMatrix([x**2, x * y]),
        sympy.Tuple(x**2, x * y),
        np.array([x**2, x * y]),
        np.array(["x^2", "x y"]),
    ],
    ids=lambda vector: type(vector).__name__,
)
def test_vectors(vector: object) -> None:
    assert Target.coerce(vector) == Target.coerce("x^2; x y")


def test_a_matrix_is_no_vector() -> None:
    with pytest.raises(InputError, match="2 × 2"):
        Target.coerce(sympy.Matrix([[x, y], [y, x]]))


def test_nameless_components_do_not_guess_which_variables_are_meant() -> None:
    with pytest.raises(InputError, match="name no variables"):
        Target.coerce([{(2, 0): 1}, "x y"])
    assert str(Target.coerce([{(2, 0): 1}, "x y"], ["x", "y"])) == "x^2; x y"
    assert str(Target.coerce([{(2, 0): 1}, "x1 x2"])) == "x1^2; x1 x2"


@pytest.mark.parametrize(
    "expression", [sympy.sin(x), sympy.pi * x, 1 / x, x**y, sympy.Function("f")(x)]
)
def test_expressions_that_are_no_polynomials_say_so(expression: sympy.Expr) -> None:
    with pytest.raises(NotPolynomialError):
        Target.coerce(expression)
