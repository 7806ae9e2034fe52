"""Grammatical expressions with their value, worked out beside the text and never from it.

Each case carries the text in the full grammar (implicit products, superscripts, several minus signs),
the same expression with explicit stars for SymPy, and the polynomial as a plain dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

VARIABLES = ("x", "y", "z12", "_w", "α")

Terms = dict[tuple[int, ...], Fraction]
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Expression:
    """Text, SymPy's spelling, and the value. ``tight`` binds at least as closely as a power."""

    text: str
    sympy: str
    value: tuple[tuple[tuple[int, ...], Fraction], ...]
    opens: str = "("
    """How it begins: ``name`` and ``(`` may follow a factor without a star."""

    @property
    def terms(self) -> Terms:
        return dict(self.value)


def plus(a: Terms, b: Terms) -> Terms:
    result = dict(a)
    for k, c in b.items():
        result[k] = result.get(k, Fraction(0)) + c
    return {k: c for k, c in result.items() if c}


def multiplied(a: Terms, b: Terms) -> Terms:
    result: Terms = {}
    for k, c in a.items():
        for m, e in b.items():
            key = tuple(i + j for i, j in zip(k, m, strict=True))
            result[key] = result.get(key, Fraction(0)) + c * e
    return {k: c for k, c in result.items() if c}


def constant(value: Fraction) -> Terms:
    return {(0,) * len(VARIABLES): value} if value else {}


def power(a: Terms, exponent: int) -> Terms:
    result = constant(Fraction(1))
    for _ in range(exponent):
        result = multiplied(result, a)
    return result


def _frozen(terms: Terms) -> tuple[tuple[tuple[int, ...], Fraction], ...]:
    return tuple(sorted(terms.items()))


@st.composite
def numbers(draw: st.DrawFn, zero: bool = True) -> Expression:
    whole = draw(st.integers(0 if zero else 1, 120))
    style = draw(st.sampled_from(["whole", "decimal", "point", "exponent"]))
    if style == "whole":
        text, value = str(whole), Fraction(whole)
    elif style == "decimal":
        decimals = draw(st.text("0123456789", min_size=1, max_size=3))
        text = f"{whole}.{decimals}"
        value = whole + Fraction(int(decimals), 10 ** len(decimals))
    elif style == "point":
        text, value = (f".{whole}", Fraction(whole, 10 ** len(str(whole))))
    else:
        shift = draw(st.integers(-4, 4))
        text = f"{whole}{draw(st.sampled_from('eE'))}{shift:+d}"
        value = whole * Fraction(10) ** shift
    spelled = f"Rational({value.numerator},{value.denominator})"
    return Expression(text, spelled, _frozen(constant(value)), "number")


@st.composite
def variables(draw: st.DrawFn) -> Expression:
    i = draw(st.integers(0, len(VARIABLES) - 1))
    key = tuple(int(i == j) for j in range(len(VARIABLES)))
    return Expression(VARIABLES[i], VARIABLES[i], _frozen({key: Fraction(1)}), "name")


@st.composite
def powers(draw: st.DrawFn, atom: st.SearchStrategy[Expression]) -> Expression:
    base = draw(atom)
    if draw(st.booleans()):
        return base
    exponent = draw(st.integers(0, 3))
    raised = str(exponent).translate(SUPERSCRIPTS)
    suffix = draw(st.sampled_from([f"^{exponent}", f"**{exponent}", f"^ ({exponent})", raised]))
    value = power(base.terms, exponent)
    return Expression(base.text + suffix, f"({base.sympy})**{exponent}", _frozen(value), base.opens)


@st.composite
def products(draw: st.DrawFn, atom: st.SearchStrategy[Expression]) -> Expression:
    first = draw(powers(atom))
    text, spelled, value = first.text, f"({first.sympy})", first.terms
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.integers(0, 4)) == 0:
            divisor = draw(numbers(zero=False).filter(lambda e: e.value))
            text, spelled = f"{text}/{divisor.text}", f"{spelled}/({divisor.sympy})"
            value = multiplied(value, constant(1 / divisor.terms[(0,) * len(VARIABLES)]))
            continue
        factor = draw(powers(atom))
        stars = ["*", " * ", "·", "×"] + ([" "] if factor.opens != "number" else [])
        text += draw(st.sampled_from(stars)) + factor.text
        spelled += f"*({factor.sympy})"
        value = multiplied(value, factor.terms)
    return Expression(text, spelled, _frozen(value), first.opens)


@st.composite
def sums(draw: st.DrawFn, atom: st.SearchStrategy[Expression]) -> Expression:
    text, spelled, value = "", "0", constant(Fraction(0))
    for i in range(draw(st.integers(1, 3))):
        signs = draw(st.sampled_from(["", "-", "+"] if i == 0 else ["+", " - ", "−", "+-", "--"]))
        term = draw(products(atom))
        negative = sum(signs.count(c) for c in "-−") % 2
        text += signs + term.text
        spelled += f"{'-' if negative else '+'}({term.sympy})"
        value = plus(value, multiplied(term.terms, constant(Fraction(-1 if negative else 1))))
    return Expression(text, spelled, _frozen(value))


def _parenthesised(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return inner.map(lambda e: Expression(f"({e.text})", f"({e.sympy})", e.value, "("))


def expressions() -> st.SearchStrategy[Expression]:
    """Sums of products of powers of numbers, variables and parenthesised sums."""
    leaf = st.one_of(numbers(), variables(), variables())
    return sums(st.recursive(leaf, lambda inner: _parenthesised(sums(inner)), max_leaves=4))
