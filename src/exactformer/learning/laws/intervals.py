"""A formula with its intervals: as text, as LaTeX, as MathML for a page, and in SymPy.

All are written from the table of terms, so they say what the table says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from exactformer.learning.laws.formula import power_of_ten, signed_sum

if TYPE_CHECKING:
    import pandas as pd
    import sympy

_DIGITS = 15


def text(table: pd.DataFrame) -> str:
    """Return text such as ``(2.003 ± 0.011) x^2 - (1.00 ± 0.02) x v``."""
    parts = []
    for row in _rows(table):
        number, margin = _rounded(row["coefficient"], _margin(row))
        factor = f"({number} ± {margin})" if margin else number
        term = "" if row["term"] == "1" else f" {row['term']}"
        parts.append((row["coefficient"] < 0, factor + term))
    return signed_sum(parts)


def latex(table: pd.DataFrame, symbols: Mapping[str, str]) -> str:
    r"""Return LaTeX such as ``(2.003 \pm 0.011)\, x^{2}``; ``symbols`` has names as LaTeX."""
    parts = []
    for row in _rows(table):
        number, margin = (power_of_ten(n) for n in _rounded(row["coefficient"], _margin(row)))
        factor = rf"({number} \pm {margin})" if margin else number
        factors = " ".join(
            symbols[name] + (f"^{{{power}}}" if power != "1" else "")
            for name, power in _factors(row["term"])
        )
        parts.append((row["coefficient"] < 0, rf"{factor}\, {factors}" if factors else factor))
    return signed_sum(parts)


def mathml(table: pd.DataFrame, target: str) -> str:
    """Return ``target = …`` as MathML, which browsers show without a script.

    Every term is an element of its own, so that a long formula breaks between terms.
    """
    pieces = [f"<mi>{escape(target)}</mi><mo>=</mo>"]
    for place, row in enumerate(_rows(table)):
        negative = row["coefficient"] < 0
        sign = "−" if negative else "+" if place else ""
        # Alone in its element a sign would stand close to its term, as one before a number.
        space = ' form="infix" lspace="0" rspace="0.25em"' if place else ' form="prefix"'
        piece = f"<mo{space}>{sign}</mo>" if sign else ""
        number, _ = _rounded(row["coefficient"], _margin(row))
        factors = _factors(row["term"])
        if number != "1" or not factors:
            piece += f"<mn>{number}</mn>"
        for name, power in factors:
            symbol = f"<mi>{escape(name)}</mi>"
            raised = f"<msup>{symbol}<mn>{power}</mn></msup>" if power != "1" else symbol
            piece += f'<mspace width="0.2em"/>{raised}'
        pieces.append(piece)
    if len(pieces) == 1:
        pieces.append("<mn>0</mn>")
    return " ".join(f"<math><mrow>{piece}</mrow></math>" for piece in pieces)


def to_sympy(table: pd.DataFrame, symbols: Mapping[str, sympy.Expr]) -> sympy.Expr:
    """Return an expression whose coefficients are intervals (``sympy.AccumBounds``)."""
    import sympy

    parts = []
    for row in _rows(table):
        low, high = row["lower"], row["upper"]
        sure = isfinite(low) and isfinite(high) and low < high
        coefficient = sympy.AccumBounds(low, high) if sure else sympy.Float(row["coefficient"])
        factors = (symbols[name] ** int(power) for name, power in _factors(row["term"]))
        parts.append(sympy.Mul(coefficient, *factors))
    return sympy.Add(*parts)


def _rows(table: pd.DataFrame) -> list[dict[Any, Any]]:
    return table.to_dict("records")


def _margin(row: dict[Any, Any]) -> float:
    return float(row["upper"] - row["lower"]) / 2


def _rounded(coefficient: float, margin: float) -> tuple[str, str]:
    """Return |coefficient| and its margin, both to two digits of the margin; no margin is empty.

    >>> _rounded(-12.3456, 0.0789), _rounded(0.5, float("nan")), _rounded(1.5e9, 2.5e7)
    (('12.346', '0.079'), ('0.5', ''), ('1.500e9', '2.5e7'))
    """
    if not (isfinite(margin) and margin > 0):
        return _plain(f"{abs(coefficient):.{_DIGITS}g}"), ""
    place = floor(log10(margin)) - 1
    size = floor(log10(abs(coefficient))) if coefficient else place
    if place < -_DIGITS or max(size, place) > _DIGITS - 1 or place > 3:
        digits = max(0, size - place)
        return _plain(f"{abs(coefficient):.{digits}e}"), _plain(f"{margin:.1e}")
    step = Decimal(1).scaleb(min(place, 0))
    return tuple(f"{Decimal(v).quantize(step):f}" for v in (abs(coefficient), margin))  # type: ignore[return-value]


def _plain(number: str) -> str:
    return re.sub(r"e([+-])0*(\d+)", lambda m: "e" + m[1].strip("+") + m[2], number)


def _factors(term: str) -> list[tuple[str, str]]:
    """Return names and powers of ``x1^2 speed``; nothing for the constant."""
    if term == "1":
        return []
    pairs = (factor.rpartition("^") for factor in term.split(" "))
    return [(name, power) if name else (power, "1") for name, _, power in pairs]
