"""Coq's notation for numbers, rows, matrices, polynomials and names."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil, floor, log10

from exactformer.algebra import Polynomial
from exactformer.core.matrix import Matrix

Row = Sequence[tuple[int, Fraction]]
"""The entries of a row that are not zero: (column, value), columns ascending."""

WIDTH = 100
_TIE = "\u00a0"

LAST = "Print Assumptions law.\n"
"""The end of every law's file."""

_TITLE = """\
(** {about}

    Written by exactformer for the model with the digest
    {digest}.
    To check it: exactformer prove MODEL -o THIS --check. With Coq alone:

        exactformer prove MODEL -o THIS --library DIR
        make -C DIR
        coqc -Q DIR Exactformer THIS *)
"""

# Words of Coq's grammar with Reals and QArith loaded, and those that a statement or its proof uses.
_TAKEN = frozenset(
    "as at by cofix else end exists exists2 fix for forall fun if IF in let match mod Prop return Set "
    "SProp then Type using where with orelse andalso R run model region law certify "
    "run_softmax agree_within tangent certify_softly "
    "Rabs binary32 binary64 computes largest result too_large certify_rounding".split()
)


def names(variables: Sequence[str]) -> list[str]:
    """Return names for Coq: a name that Coq cannot use gets an underscore, or a number.

    >>> names(["x", "at", "β"])
    ['x', 'at_', 'x3']
    """
    result: list[str] = []
    for number, variable in enumerate(variables, start=1):
        name = variable if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", variable) else f"x{number}"
        while _is_taken(name) or name in result or (name != variable and name in variables):
            name += "_"
        result.append(name)
    return result


def _is_taken(name: str) -> bool:
    return name in _TAKEN or re.fullmatch(r"closed_form(_[0-9]+)?", name) is not None


def rational(value: Fraction | int) -> str:
    """Return a number of Q, in brackets where it would not stand by itself.

    >>> rational(Fraction(-1, 2)), rational(3)
    ('(-1 # 2)', '3')
    """
    value = Fraction(value)
    if value.denominator == 1:
        return str(value) if value >= 0 else f"({value})"
    return f"({value.numerator} # {value.denominator})"


def real(value: Fraction) -> str:
    """Return a number of R.

    >>> real(Fraction(-1, 2))
    '-1 / 2'
    """
    return str(value).replace("/", " / ")


def two_digits(value: float) -> Fraction:
    """Return a decimal fraction of two digits that is at least the value.

    >>> two_digits(0.00123)
    Fraction(13, 10000)
    """
    if not value:
        return Fraction(0)
    unit = Fraction(10) ** (floor(log10(value)) - 1)
    return ceil(Fraction(value) / unit) * unit


def decimal(value: Fraction) -> str:
    """Return a decimal fraction of R as one reads it, not in lowest terms.

    >>> decimal(Fraction(48, 10000))
    '48 / 10000'
    """
    power = 1
    while value * power != round(value * power):
        power *= 10
    return f"{value * power} / {power}" if power > 1 else str(value)


def listed(items: Iterable[str], indent: int = 0, lines: bool = False) -> str:
    """Return a list, with one item per line if told."""
    separator = f";\n{' ' * (indent + 1)}" if lines else "; "
    return f"[{separator.join(items)}]"


def row(entries: Row) -> str:
    """Return a sparse row."""
    return listed(f"{column} |-> {rational(value).strip('()')}" for column, value in entries)


def vector(matrix: Matrix) -> str:
    """Return a matrix of one column, such as a bias, as a sparse row."""
    return row(sorted((i, value) for i, _, value in matrix))


def matrix(matrix: Matrix, indent: int, whole: bool = False) -> str:
    """Return the rows of a matrix; runs of zeros and of shifted single entries are written briefly.

    Zero rows at the end are left out, unless the ``whole`` matrix is wanted: the number of rows of a
    query says where the sum of a score ends.
    """
    rows = [sorted(matrix.by_row.get(i, [])) for i in range(matrix.rows)]
    while rows and not rows[-1] and not whole:
        rows.pop()
    parts: list[str] = []
    plain: list[str] = []

    def finish_plain() -> None:
        if plain:
            parts.append(listed(plain, indent + 1, lines=True))
            plain.clear()

    start = 0
    while start < len(rows):
        blank, shifted = _blank_run(rows, start), _diagonal_run(rows, start)
        if blank >= 2:
            finish_plain()
            parts.append(f"blank {blank}")
        elif shifted >= 3:
            finish_plain()
            ((column, value),) = rows[start]
            parts.append(f"diagonal {column} {shifted} {rational(value)}")
        else:
            plain.append(row(rows[start]))
        start += blank if blank >= 2 else shifted if shifted >= 3 else 1
    finish_plain()
    if not parts:
        return "[]"
    if len(parts) == 1 and parts[0].startswith("["):
        return parts[0]
    short = not any("\n" in part for part in parts) and sum(map(len, parts)) < 70
    separator = " ++ " if short else f"\n{' ' * indent} ++ "
    return f"({separator.join(parts)})"


def polynomial(target: Polynomial, variables: Sequence[str]) -> str:
    """Return a polynomial as one would write it in Coq.

    >>> polynomial(Polynomial.parse("x^2 - y/3 + 3 x y"), ["x", "y"])
    'x ^ 2 + 3 * x * y - 1 / 3 * y'
    """
    text = ""
    for exponents, coefficient in target.terms().items():
        factors = [
            name if power == 1 else f"{name} ^ {power}"
            for name, power in zip(variables, exponents, strict=True)
            if power
        ]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, real(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {' * '.join(factors)}"
    return text.removeprefix(" + ").strip() or "0"


def title(about: str, digest: str) -> str:
    """Return the comment that a law's file begins with: what it is about, and how to check it."""
    return _TITLE.format(about=about, digest=digest)


def tied(text: str) -> str:
    """Return a text that :func:`wrapped` does not break, such as one in quotes."""
    return text.replace(" ", _TIE)


def wrapped(text: str, indent: int) -> str:
    """Break a long line at blanks that are not tied."""
    space = " " * indent
    filled = textwrap.fill(
        text,
        WIDTH,
        initial_indent=space,
        subsequent_indent=space + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_TIE, " ")


def _blank_run(rows: Sequence[Row], start: int) -> int:
    """Return how many rows from here on are zero."""
    return next((k for k, here in enumerate(rows[start:]) if here), len(rows) - start)


def _diagonal_run(rows: Sequence[Row], start: int) -> int:
    """Return how many rows from here on hold one and the same number, a column further each."""
    if len(rows[start]) != 1:
        return 0
    ((column, value),) = rows[start]
    same = (list(here) == [(column + k, value)] for k, here in enumerate(rows[start:]))
    return next((k for k, is_same in enumerate(same) if not is_same), len(rows) - start)
