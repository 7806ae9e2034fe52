"""To and from SymPy and arrays, and LaTeX: nothing is lost, nothing is guessed."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings

from exactformer.algebra import Polynomial
from exactformer.errors import InputError
from tests.cases.polynomials import polynomials
from tests.examples import examples

x, y = sympy.symbols("x y")


@given(polynomials(max_width=300, dense_limit=40))
@settings(max_examples=examples(60))
def test_sympy_and_back(p: Polynomial) -> None:
    assert Polynomial.from_sympy(p.to_sympy(), p.variables) == p
    assert Polynomial.coerce(p.to_sympy(), p.variables) == p


def test_sympy_expressions_are_multiplied_out() -> None:
    assert Polynomial.from_sympy((x + y) ** 2 / 2) == Polynomial.parse("(x + y)^2 / 2")
    assert Polynomial.from_sympy(sympy.Poly(x**2 + 1, x)) == Polynomial.parse("x^2 + 1")
    assert Polynomial.from_sympy(sympy.Integer(3)).constant == 3


@pytest.mark.parametrize("value", [1.4142135623730951, 0.3333333333333333, 0.1, 1e-300, 1e300])
def test_sympy_floats_are_the_binary_numbers_they_are(value: float) -> None:
    """SymPy's own nsimplify would guess 1/3, and drop the last digits of √2."""
    assert Polynomial.from_sympy(sympy.Float(value) * x).coefficient((1,)) == Fraction(value)


@pytest.mark.parametrize(
    "expression",
    [
        1 / x,
        sympy.sin(x),
        sympy.sqrt(x),
        sympy.I * x,
        sympy.pi * x,
        sympy.sqrt(2) * x,
        sympy.oo * x,
        sympy.nan,
        x**y,
        x * sympy.Symbol("x", positive=True),
        sympy.Symbol("x y"),
        sympy.Poly(sympy.sin(x) ** 2, sympy.sin(x)),
        sympy.Eq(x, y),
        sympy.Symbol("A", commutative=False) * sympy.Symbol("B", commutative=False),
        sympy.MatrixSymbol("A", 2, 2),
    ],
)
def test_what_is_no_rational_polynomial_is_refused(expression: sympy.Basic) -> None:
    with pytest.raises(InputError):
        Polynomial.from_sympy(expression)


def test_from_sympy_never_reads_text_because_sympify_would_run_it() -> None:
    with pytest.raises(InputError, match="parse"):
        Polynomial.from_sympy("__import__('os').getcwd()")


def test_variables_name_the_coordinates_of_a_sympy_expression() -> None:
    p = Polynomial.from_sympy(x**2, ["y", "x", "z"])
    assert p.variables == ("y", "x", "z")
    assert p.terms() == {(0, 2, 0): 1}
    with pytest.raises(InputError):
        Polynomial.from_sympy(x**2, ["y"])


def test_arrays_follow_numpy() -> None:
    coefficients = np.array([[1.0, 0.0, 2.0], [0.5, 3.0, 0.0]])
    p = Polynomial.from_array(coefficients)
    assert p == Polynomial.parse("1 + 2 x2^2 + 0.5 x1 + 3 x1 x2")
    points = np.random.default_rng(0).normal(size=(20, 2))
    theirs = np.polynomial.polynomial.polyval2d(points[:, 0], points[:, 1], coefficients)
    np.testing.assert_allclose(p.evaluate(points), theirs, rtol=1e-12)
    assert Polynomial.from_array(np.array(3)).constant == 3
    with pytest.raises(InputError):
        Polynomial.from_array(coefficients, ["x"])
    with pytest.raises(InputError):
        Polynomial.from_array(np.array([np.nan]))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x1^2 + 3/4 x12 - 1", r"x_{1}^{2} + \frac{3}{4} x_{12} - 1"),
        ("-x", "-x"),
        ("alpha_1^10", r"\mathrm{alpha\_1}^{10}"),
        ("0 x", "0"),
        ("x_2 y", "x_{2} y"),
    ],
)
def test_latex(text: str, latex: str) -> None:
    assert Polynomial.parse(text).latex() == latex
