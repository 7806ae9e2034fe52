"""Polynomials as people read them: text that parses back, LaTeX, SymPy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flint import fmpz

from exactformer.algebra.ring import Exponents

if TYPE_CHECKING:
    import sympy


def text(terms: Mapping[Exponents, Fraction], variables: tuple[str, ...]) -> str:
    """Return text such as ``x1^5 + 3 x2^4 - 1/2``, which parses back to the same polynomial."""
    return _joined(
        terms,
        [(lambda e, v=v: v if e == 1 else f"{v}^{e}") for v in variables],
        lambda c: (
            _decimal(c.numerator) + ("" if c.denominator == 1 else f"/{_decimal(c.denominator)}")
        ),
    )


def latex(terms: Mapping[Exponents, Fraction], variables: tuple[str, ...]) -> str:
    """Return LaTeX; ``x12`` becomes ``x_{12}``, longer names upright."""
    names = [_latex_name(v) for v in variables]

    def number(c: Fraction) -> str:
        if c.denominator == 1:
            return _decimal(c.numerator)
        return rf"\frac{{{_decimal(c.numerator)}}}{{{_decimal(c.denominator)}}}"

    return _joined(terms, [(lambda e, n=n: n if e == 1 else f"{n}^{{{e}}}") for n in names], number)


def to_sympy(terms: Mapping[Exponents, Fraction], variables: tuple[str, ...]) -> sympy.Expr:
    """Return a SymPy expression."""
    import sympy

    symbols = [sympy.Symbol(v) for v in variables]
    return sympy.Add(
        *(
            sympy.Mul(
                sympy.Rational(c.numerator, c.denominator),
                *(s**e for s, e in zip(symbols, exponents, strict=True) if e),
            )
            for exponents, c in terms.items()
        )
    )


def name_list(names: Sequence[str], width: int = 80) -> str:
    """Return names in their order; of ``x1, x2, …, x9``, and of a long list, not all.

    >>> name_list(["b", "a"]), name_list([f"x{i}" for i in range(1, 10)])
    ('b, a', 'x1, x2, …, x9')
    """
    text = ", ".join(names)
    match = re.fullmatch("(.*?)([0-9]{1,9})", names[0]) if len(names) > 6 else None
    if match and list(names) == [f"{match[1]}{int(match[2]) + i}" for i in range(len(names))]:
        return f"{names[0]}, {names[1]}, …, {names[-1]}"
    if len(text) <= width:
        return text
    return f"{text[:width].rpartition(', ')[0]}, … ({len(names):,} in all)"


def _joined(terms: Mapping[Exponents, Fraction], powers: list[Any], number: Any) -> str:
    pieces: list[str] = []
    for exponents, coefficient in terms.items():
        factors = [power(e) for power, e in zip(powers, exponents, strict=True) if e]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, number(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        pieces.append(
            " ".join(factors) if not pieces and sign == "+" else f"{sign} {' '.join(factors)}"
        )
    joined = " ".join(pieces) or "0"
    return "-" + joined[2:] if joined.startswith("- ") else joined


def _decimal(value: int) -> str:
    return str(fmpz(value))  # str(int) stops at 4300 digits


def _latex_name(name: str) -> str:
    match = re.fullmatch(r"([^\W\d_])(?:_?([0-9]+))?", name)
    if match is None:
        return rf"\mathrm{{{name}}}".replace("_", r"\_")
    letter, digits = match.groups()
    return f"{letter}_{{{digits}}}" if digits else letter
