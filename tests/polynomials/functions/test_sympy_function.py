"""SymPy's functions: evaluated node by node as NumPy does, compiled on a box, never run as code."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sympy
import torch

import exactformer as ef
from exactformer.errors import InputError, NotPolynomialError, ParseError
from exactformer.polynomials.functions.sympy_function import SympyFunction, is_function

x, y = sympy.symbols("x y")
POINTS = np.random.default_rng(0).uniform(0.1, 0.9, size=(50, 2))
BOX = {"domain": [(-1, 1), (0, 1)], "tolerance": 1e-8}


@pytest.mark.parametrize(
    "expression",
    [
        sympy.sin(x) + y,
        sympy.exp(-x * y) / (1 + x**2),
        sympy.sqrt(x) * sympy.log(y, 2) - sympy.pi,
        sympy.Max(x, y, 0.5) + sympy.Min(x, y) + sympy.Abs(x - y),
        sympy.tanh(x) ** 3 + sympy.atan2(y, x) + x**y,
        sympy.acos(x) + sympy.asinh(y) + sympy.cosh(x) + sympy.Rational(1, 3) ** x,
        x**2 + sympy.sign(y) + sympy.floor(3 * x),
    ],
    ids=str,
)
def test_values_are_those_of_lambdify(expression: sympy.Expr) -> None:
    theirs = sympy.lambdify((x, y), expression, "numpy")(*POINTS.T)
    ours = SympyFunction(expression, ["x", "y"])(POINTS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=1e-14)


def test_a_function_is_compiled_on_a_box_to_a_tolerance() -> None:
    model = ef.compile(sympy.sin(x) + y, **BOX)
    assert model.variables == ("x", "y")
    assert model.approximation.error <= 1e-8
    assert model.approximation.function == "y + sin(x)"
    np.testing.assert_allclose(model([0.5, 0.25]), np.sin(0.5) + 0.25, atol=1e-8)


def test_the_order_of_variables_is_natural_or_given() -> None:
    expression = sympy.exp(y) - x
    given = ef.compile(expression, domain=[(0, 1), (-1, 1)], variables=["y", "x"], tolerance=1e-6)
    assert given.variables == ("y", "x")
    np.testing.assert_allclose(given([1.0, -1.0]), np.e + 1, atol=1e-6)
    assert SympyFunction(sympy.Lambda((y, x), expression)).variables == ("y", "x")
    with pytest.raises(InputError, match="uses y"):
        SympyFunction(expression, ["x"])
    with pytest.raises(InputError, match="3 intervals for 2 variables"):
        ef.compile(expression, domain=[(0, 1)] * 3, tolerance=1e-3)


@pytest.mark.parametrize(
    "vector", [sympy.Matrix([sympy.sin(x), y**2]), [sympy.sin(x), "y^2"], [sympy.sin(x), y**2]]
)
def test_vectors_may_hold_polynomials_too(vector: object) -> None:
    model = ef.compile(vector, **BOX)
    np.testing.assert_allclose(model([0.5, 0.5]), [np.sin(0.5), 0.25], atol=1e-8)


def test_components_without_names_do_not_guess_which_variables_are_meant() -> None:
    vector = [sympy.sin(x), {(1, 1): 1}]
    with pytest.raises(InputError, match="name no variables"):
        ef.compile(vector, **BOX)
    model = ef.compile(vector, variables=["x", "y"], **BOX)
    np.testing.assert_allclose(model([0.5, 0.5]), [np.sin(0.5), 0.25], atol=1e-8)
    with pytest.raises(ParseError, match="write alpha beta"):
        ef.compile([sympy.sin(sympy.Symbol("alpha")), "beta + alphabeta"], **BOX)


def test_without_box_or_tolerance_the_refusal_names_both() -> None:
    for options in ({}, {"tolerance": 1e-6}, {"domain": [(-1, 1)]}, {"radius": 2}):
        with pytest.raises(NotPolynomialError, match=r"domain=\[\(lower, upper\), …\], tolerance="):
            ef.compile(sympy.sin(x), **options)


def test_a_polynomial_of_sympy_stays_exact_on_a_box() -> None:
    model = ef.compile(x**2 / 3, domain=[(0, 1)], tolerance=1e-9)
    assert model.approximation is None
    assert model.target == "1/3 x^2"


@pytest.mark.parametrize(
    "expression",
    [
        sympy.Function("sin")(x),
        sympy.I * x,
        sympy.besselj(0, x),
        sympy.Integral(sympy.exp(x), x),
        sympy.zoo * x,
        sympy.Integer(10) ** 400 * sympy.sin(x),
        sympy.sin(x) * sympy.Symbol("x", positive=True),
    ],
    ids=str,
)
def test_what_has_no_value_here_is_refused(expression: sympy.Expr) -> None:
    with pytest.raises(InputError):
        ef.compile(expression, domain=[(0, 1)], tolerance=1e-3)


def test_values_that_are_not_real_are_refused_without_warnings() -> None:
    with pytest.raises(InputError, match="not a finite number"):
        ef.compile(sympy.log(x), domain=[(-1, 1)], tolerance=1e-3)


_watching: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _watching is not None:
        _watching.append(event)


def test_no_code_is_run() -> None:
    global _watching
    expression = sympy.sin(x) + sympy.Symbol("__import__('os')")
    SympyFunction(expression)(POINTS)  # whatever is imported late is imported now
    sys.addaudithook(_watch)
    _watching = []
    try:
        SympyFunction(expression)(POINTS)
        seen = set(_watching)
    finally:
        _watching = None
    assert not [e for e in seen if e.startswith(("exec", "compile", "import", "open", "os."))]


def test_measure_takes_them_too() -> None:
    model = ef.compile(sympy.sin(x), domain=[(0, 1)], tolerance=1e-6)
    measured = model.measure(sympy.sin(x), samples=64)
    assert 0 < measured.parts["approximation"].value <= 1e-6
    assert ef.compile(x**2).measure(sympy.Poly(x**2, x), samples=16).value < 1e-15


def test_what_can_be_read_is_not_a_function() -> None:
    assert is_function(np.sin)
    assert is_function(lambda u: u)
    assert is_function(torch.sin)
    for target in (sympy.Poly(x), np.poly1d([1, 0]), np.polynomial.Chebyshev([1]), sympy.sin, "x"):
        assert not is_function(target)


@pytest.mark.parametrize(
    "f", [torch.sin, lambda u: torch.sin(u), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Tanh())]
)
def test_functions_of_torch(f: object) -> None:
    model = ef.compile(f, domain=[(-1, 1)], tolerance=1e-6)
    point = torch.tensor([0.5], dtype=torch.float64)
    np.testing.assert_allclose(model(point), f(point)[0].detach(), atol=1e-6)


def test_curves_take_them_too() -> None:
    ours = ef.universality_curve(sympy.exp(x), [2, 4])
    np.testing.assert_allclose(ours["error"], ef.universality_curve(np.exp, [2, 4])["error"])


def test_a_function_without_values_is_refused_without_warnings() -> None:
    with pytest.raises(InputError, match="not a finite number"):
        ef.compile(np.log, domain=[(-1, 1)], tolerance=1e-3)
