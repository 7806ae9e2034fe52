"""A fitted polynomial as people read it: text that parses back, LaTeX, SymPy, a table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import chain, count
from math import floor, isfinite, log10, prod
from typing import TYPE_CHECKING

from exactformer.learning.laws.dictionary.terms import Exponents

if TYPE_CHECKING:
    import pandas as pd
    import sympy

_MOST_DIGITS = 40
# Sums over rows in another order change a coefficient by less than this share.
_ROUNDING = 1e-13


def digits_needed(
    terms: Mapping[Exponents, Fraction],
    errors: Mapping[Exponents, float],
    reach: Sequence[float],
    noise: float,
) -> dict[Exponents, int]:
    """Return to how many significant digits each coefficient is worth printing.

    Two digits of its standard error, but no digit that rounding may have made; more where powers of
    x are large and cancel, so that all roundings together change the values on the data by less than
    a fiftieth of the noise.
    """
    share = noise / 50 / max(1, len(terms))
    return {
        alpha: _digits(
            c,
            [
                max(errors.get(alpha, 0.0) / 10, _ROUNDING * abs(float(c))),
                share / _size(alpha, reach),
            ],
        )
        for alpha, c in terms.items()
    }


def _decimal(coefficient: Fraction, digits: int) -> str:
    """Return a coefficient to so many significant digits, without trailing zeros.

    >>> _decimal(Fraction(30001442, 10**7), 6), _decimal(Fraction(-12345678, 10**4), 4)
    ('3.00014', '-1235')
    """
    with localcontext(prec=digits):
        number = (Decimal(coefficient.numerator) / Decimal(coefficient.denominator)).normalize()
    plain = -5 <= number.adjusted() <= 15
    return f"{number:f}" if plain else f"{number:e}".replace("e+", "e")


def text(
    terms: Mapping[Exponents, Fraction], digits: Mapping[Exponents, int], names: Sequence[str]
) -> str:
    """Return text such as ``x1^5 + 3.0001 x2^4 - 2 x9``, which parses."""
    numbers = [_decimal(c, digits[alpha]) for alpha, c in terms.items()]
    return _joined(terms, numbers, names, "{}^{}")


def latex(
    terms: Mapping[Exponents, Fraction], digits: Mapping[Exponents, int], symbols: Sequence[str]
) -> str:
    """Return LaTeX, with symbols that are LaTeX already."""
    numbers = [power_of_ten(_decimal(c, digits[alpha])) for alpha, c in terms.items()]
    return _joined(terms, numbers, symbols, "{}^{{{}}}")


def power_of_ten(number: str) -> str:
    """Return a number for LaTeX, its exponent as a power of ten."""
    return re.sub(r"e(-?\d+)", r" \\cdot 10^{\1}", number)


def to_sympy(terms: Mapping[Exponents, Fraction], symbols: Sequence[sympy.Expr]) -> sympy.Expr:
    """Return a SymPy expression with the exact rational coefficients."""
    import sympy

    return sympy.Add(
        *(
            sympy.Mul(
                sympy.Rational(c.numerator, c.denominator),
                *(s**k for s, k in zip(symbols, alpha, strict=True) if k),
            )
            for alpha, c in terms.items()
        )
    )


def monomial(alpha: Exponents, names: Sequence[str]) -> str:
    """Return ``x1^2 x3``, or ``1`` for the constant.

    >>> monomial((2, 0, 1), ["x1", "x2", "x3"])
    'x1^2 x3'
    """
    factors = [n if k == 1 else f"{n}^{k}" for n, k in zip(names, alpha, strict=True) if k]
    return " ".join(factors) or "1"


def table(
    terms: Mapping[Exponents, Fraction],
    errors: Mapping[Exponents, float],
    names: Sequence[str],
    freedom: float,
    confidence: float,
) -> pd.DataFrame:
    """Return one row for each term: coefficient, standard error, confidence interval, p-value."""
    import numpy as np
    import pandas as pd
    from scipy.special import stdtr, stdtrit

    coefficient = np.array([float(c) for c in terms.values()], dtype=float)
    error = np.array([errors.get(a, np.nan) for a in terms], dtype=float)
    known = freedom > 0
    half = stdtrit(freedom, (1 + confidence) / 2) * error if known else np.full_like(error, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * stdtr(freedom, -np.abs(coefficient / error)) if known else half
    return pd.DataFrame(
        {
            "term": [monomial(a, names) for a in terms],
            "coefficient": coefficient,
            "standard_error": error,
            "lower": coefficient - half,
            "upper": coefficient + half,
            "p_value": p_value,
        }
    )


def variable_names(names: Sequence[str]) -> list[str]:
    """Return names a formula can use: a column's own, or an alias of letters, digits and _.

    No two columns get the same name.

    >>> variable_names(["speed", "Mass (kg)", "0", "Mass_kg", "%"])
    ['speed', 'Mass_kg_2', 'x0', 'Mass_kg', 'x5']
    """
    taken = {name for name in names if _plain(name)}
    variables: list[str] = []
    for place, name in enumerate(names, start=1):
        if not _plain(name) or name in variables:
            name = _alias(name, place, taken)
            taken.add(name)
        variables.append(name)
    return variables


def _alias(name: str, place: int, taken: set[str]) -> str:
    """Return a plain name like ``name`` that is not taken; ``place`` numbers one without letters."""
    letters = (c if _plain(f"x{c}") else " " for c in unicodedata.normalize("NFKC", name))
    words = "_".join("".join(letters).split()).strip("_")
    if not words:
        words = f"x{place}"
    elif not _plain(words):
        words = f"x{words}" if words.isdigit() else f"x_{words}"
    numbered = (f"{words}_{k}" for k in count(2))
    return next(n for n in chain([words], numbered) if n not in taken)


def _plain(name: str) -> bool:
    # Python and SymPy read a name in its NFKC form, so one in another form could be taken for another.
    if unicodedata.normalize("NFKC", name) != name:
        return False
    letters = all(c.isalpha() or c in "_0123456789" for c in name)
    return letters and name != "" and name[0] not in "0123456789"


def _joined(
    terms: Mapping[Exponents, Fraction], numbers: list[str], names: Sequence[str], power: str
) -> str:
    parts = []
    for alpha, number in zip(terms, numbers, strict=True):
        pairs = [(n, k) for n, k in zip(names, alpha, strict=True) if k]
        factors = [n if k == 1 else power.format(n, k) for n, k in pairs]
        size = number.lstrip("-")
        if size != "1" or not factors:
            factors.insert(0, size)
        parts.append((number.startswith("-"), " ".join(factors)))
    return signed_sum(parts)


def signed_sum(parts: Sequence[tuple[bool, str]]) -> str:
    """Return a sum of parts, each negative or not.

    >>> signed_sum([(True, "x"), (False, "2")]), signed_sum([])
    ('-x + 2', '0')
    """
    joined = "".join(f" {'-' if negative else '+'} {part}" for negative, part in parts)
    if not joined:
        return "0"
    return joined[3:] if joined.startswith(" + ") else "-" + joined[3:]


def _digits(coefficient: Fraction, steps: list[float]) -> int:
    fine = [step for step in steps if isfinite(step) and step > 0]
    if coefficient == 0:
        return 1
    if not fine:
        return _MOST_DIGITS
    return min(max(1, _order(coefficient) - floor(log10(min(fine))) + 1), _MOST_DIGITS)


def _order(value: Fraction) -> int:
    """Return ⌊log₁₀|value|⌋, whatever its size."""
    with localcontext(prec=20):
        return (Decimal(value.numerator) / Decimal(value.denominator)).adjusted()


def _size(alpha: Exponents, reach: Sequence[float]) -> float:
    size = prod(r**k for r, k in zip(reach, alpha, strict=True) if k)
    return size if size > 0 else 1.0


def latex_name(name: str) -> str:
    """Return a name for LaTeX: ``x_{12}`` for ``x12``, longer ones upright."""
    match = re.fullmatch(r"([^\W\d_])_?([0-9]*)", name)
    if match is None:
        escaped = name.replace("_", r"\_")
        return rf"\mathrm{{{escaped}}}"
    letter, digits = match.groups()
    return f"{letter}_{{{digits}}}" if digits else letter
