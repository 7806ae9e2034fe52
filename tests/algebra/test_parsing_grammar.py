"""The parser agrees with values that were worked out beside the text, and with SymPy."""

from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from sympy.parsing.sympy_parser import parse_expr

from exactformer.algebra import Polynomial
from exactformer.errors import InputError, ParseError, UnknownVariableError
from tests.cases.expressions import VARIABLES, Expression, expressions
from tests.cases.polynomials import polynomials
from tests.examples import examples


@given(expressions())
@settings(max_examples=examples(400))
def test_text_means_what_the_expression_means(case: Expression) -> None:
    assert Polynomial.parse(case.text, VARIABLES).terms() == case.terms


@given(expressions())
@settings(max_examples=examples(60))
def test_sympy_reads_the_same_expression_as_the_same_polynomial(case: Expression) -> None:
    symbols = {v: sympy.Symbol(v) for v in VARIABLES}
    theirs = sympy.Poly(parse_expr(case.sympy, local_dict=symbols), *symbols.values(), domain="QQ")
    ours = Polynomial.parse(case.text, VARIABLES)
    assert ours.terms() == {k: Fraction(int(c.p), int(c.q)) for k, c in theirs.terms() if c}


@given(polynomials(max_width=1300))
@settings(max_examples=examples(200))
def test_printed_text_parses_back_to_the_same_polynomial(p: Polynomial) -> None:
    assert Polynomial.parse(str(p), p.variables) == p


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("5 x y", {(1, 1): 5}),
        ("2(x+y)^2", {(2, 0): 2, (1, 1): 4, (0, 2): 2}),
        ("1/2 x", {(1, 0): Fraction(1, 2)}),
        ("1/2x + y", {(1, 0): Fraction(1, 2), (0, 1): 1}),
        ("x/2/5 y", {(1, 1): Fraction(1, 10)}),
        ("-x^2 - y", {(2, 0): -1, (0, 1): -1}),
        ("(-x)^2 - y", {(2, 0): 1, (0, 1): -1}),
        ("2*-3 x y", {(1, 1): -6}),
        ("0.1 x + y", {(1, 0): Fraction(1, 10), (0, 1): 1}),
        ("x - x + 0 y", {}),
        ("(x + y)^0", {(0, 0): 1}),
        ("0^0 x y", {(1, 1): 1}),
        ("x/(1+1) + y", {(1, 0): Fraction(1, 2), (0, 1): 1}),
        ("x²y³", {(2, 3): 1}),
        ("x**2·y×y", {(2, 2): 1}),
        ("x (x + y)(x − y)", {(3, 0): 1, (1, 2): -1}),
        ("1e2 x + 1.5E-1y", {(1, 0): 100, (0, 1): Fraction(3, 20)}),
        ("\tx\n+ y ", {(1, 0): 1, (0, 1): 1}),
    ],
)
def test_spelling(text: str, terms: dict[tuple[int, int], Fraction]) -> None:
    assert Polynomial.parse(text, ["x", "y"]).terms() == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (r"x^{2} + \frac{1}{2} y", {(2, 0): 1, (0, 1): Fraction(1, 2)}),
        (r"\frac{x + y}{3}", {(1, 0): Fraction(1, 3), (0, 1): Fraction(1, 3)}),
        (r"-\dfrac{-1}{4}x \cdot y", {(1, 1): Fraction(1, 4)}),
        (r"3 \times \left(x - y\right)^{2}", {(2, 0): 3, (1, 1): -6, (0, 2): 3}),
        (r"(\frac{x}{2})^{3}\,y", {(3, 1): Fraction(1, 8)}),
        (r"\frac{\frac{1}{2}}{3} x + \mathrm{y}", {(1, 0): Fraction(1, 6), (0, 1): 1}),
        (r"x \quad y\ ", {(1, 1): 1}),
    ],
)
def test_latex_spelling(text: str, terms: dict[tuple[int, int], Fraction]) -> None:
    assert Polynomial.parse(text.rstrip("\\ "), ["x", "y"]).terms() == terms


@given(polynomials(max_width=1300))
@settings(max_examples=examples(200))
def test_printed_latex_parses_back_to_the_same_polynomial(p: Polynomial) -> None:
    assert Polynomial.parse(p.latex(), p.variables) == p


@given(polynomials(max_width=300, dense_limit=40))
@settings(max_examples=examples(60))
def test_latex_of_sympy_parses_back(p: Polynomial) -> None:
    assert Polynomial.parse(sympy.latex(p.to_sympy()), p.variables) == p


@pytest.mark.parametrize(
    "name", ["x", "x1", "x_1", "x_", "_w", "α", "alpha_12", "speed", "x1y", "é"]
)
def test_names_survive_latex(name: str) -> None:
    p = Polynomial.from_terms({(2,): 3}, [name])
    assert Polynomial.parse(p.latex(), [name]) == p


def test_a_subscript_is_the_declared_spelling_and_never_one_of_two() -> None:
    assert Polynomial.parse("x_{12}").variables == ("x_12",)
    assert Polynomial.parse("x_{12}", ["x12"]).variables == ("x12",)
    assert Polynomial.parse(r"\alpha_{1} \beta").variables == ("alpha_1", "beta")
    with pytest.raises(ParseError, match="may be x_1 or x1"):
        Polynomial.parse("x_{1}", ["x1", "x_1"])


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (r"2\frac{1}{2}", 2),
        (r"\frac12", 6),
        (r"\frac{1}{x}", 9),
        (r"\frac{1}{0}", 9),
        (r"\frac{1}{2}^2", 12),
        (r"\frac{1}", 9),
        (r"\frac{1}{2", 9),
        ("x^{2", 5),
        ("x^{2)", 5),
        ("x^{y}", 4),
        ("{x}", 1),
        ("x{2}", 2),
        ("x}", 2),
        ("x_{i,j}", 2),
        (r"\sqrt{x}", 1),
        (r"\foo x", 1),
        (r"\mathrm{a b}", 1),
        ("x\\", 2),
    ],
)
def test_latex_errors_point_at_the_column(text: str, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        Polynomial.parse(text)
    assert caught.value.column == column


def test_an_equation_is_refused_with_what_to_give() -> None:
    with pytest.raises(ParseError, match="give one side of it"):
        Polynomial.parse("y = x^2")


def test_a_letter_e_after_a_number_is_a_variable_unless_digits_follow() -> None:
    assert Polynomial.parse("2e").terms() == {(1,): 2}
    assert Polynomial.parse("2 e5").variables == ("e5",)
    assert Polynomial.parse("2e5").terms() == {(): 200_000}


def test_zero_times_a_variable_is_read_where_it_is_no_number_in_another_base() -> None:
    assert Polynomial.parse("0x^2 + 0 x10 + 10x2").terms() == {(0, 1, 0): 10}
    assert Polynomial.parse("0x10 + 1", ["x10"]).terms() == {(0,): 1}


def test_a_factor_behind_a_divisor_is_read_where_it_can_be_in_one_place_only() -> None:
    half = {(1, 1): Fraction(1, 2)}
    for text in ("1/2x y", "x/2 y", "x/2*y", "1/2(x)y"):
        assert Polynomial.parse(text).terms() == half


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 1),
        ("x +", 4),
        ("x + * y", 5),
        ("x 2", 3),
        ("(x", 1),
        ("x)", 2),
        ("x^-1", 3),
        ("x^y", 3),
        ("x^1.5", 3),
        ("x^2^3", 4),
        ("x^(2", 5),
        ("1/x", 3),
        ("1/0", 3),
        ("1/(x-x)", 3),
        ("x $ y", 3),
        ("sin(x)", 1),
        ("x\0y", 2),
        ("x\ud800", 2),
        ("٣ x", 1),
        ("x^1000001", 3),
        ("__import__('os')", 12),
        ("x.real", 2),
        ("[x]", 1),
        ("x = y", 3),
        ("x ∧ y", 3),
        ("2 + 0x10", 5),
        ("0b1", 1),
        ("x/2y", 4),
        ("x + (x - y)/2(x + y)", 14),
    ],
)
def test_errors_point_at_the_column(text: str, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        Polynomial.parse(text)
    assert caught.value.column == column


def test_an_unknown_variable_is_named_with_its_place() -> None:
    with pytest.raises(UnknownVariableError, match="'z'") as caught:
        Polynomial.parse("x + 2 z", ["x", "y"])
    assert caught.value.column == 7


def test_names_are_ordered_naturally_and_ties_do_not_depend_on_chance() -> None:
    assert Polynomial.parse("x10 + x2 + x1 + a").variables == ("a", "x1", "x2", "x10")
    names = [f"x{'0' * k}1" for k in range(8)]
    orders = {Polynomial.parse(" + ".join(order)).variables for order in (names, names[::-1])}
    assert orders == {tuple(sorted(names))}


@pytest.mark.parametrize("variables", ["xy", ["x", "x"]])
def test_variables_are_a_list_of_different_names(variables: object) -> None:
    with pytest.raises(InputError):
        Polynomial.parse("x", variables)  # type: ignore[arg-type]
