"""Limits on the size of polynomials, and predictions of it that come before any work.

Terms of a product are counted in three ways, and the least is taken: every pair of terms, the box of
the degrees in each variable, the monomials of the total degree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import comb

from flint import fmpq_mpoly

from exactformer.errors import SizeError

MAX_VARIABLES = 1000  # FLINT packs exponents densely; several thousand variables crash it
MAX_TERMS = 2_000_000
MAX_BYTES = 2**29  # of the exponents of one polynomial, as FLINT packs them
MAX_EXPONENT = 1_000_000
MAX_COEFFICIENT_BITS = 200_000
MAX_DECIMAL_EXPONENT = 10_000
MAX_WORK = 50_000_000  # coefficient multiplications (per 64 bits) spent on multiplying out

_COUNTED = 5000  # binomials of larger numbers are slower to compute than they are useful


@dataclass
class Work:
    """Operations spent on multiplying out, and the limit; the components of a vector share one."""

    most: int = MAX_WORK
    spent: int = 0

    def spend(self, operations: int, column: int) -> None:
        """Refuse work before it is done, with the place that needs it."""
        self.spent += operations
        if self.spent > self.most:
            raise SizeError(
                f"multiplying out up to column {column} takes about {Decimal(self.spent):.1e} "
                f"operations, the limit is {self.most:.0e}; give the polynomial already expanded, or "
                "of lower degree"
            )


def check_variables(count: int, exactly: bool = True) -> None:
    """Refuse more variables than a polynomial can have, ``count`` of them or more."""
    if count > MAX_VARIABLES:
        raise SizeError(
            f"the polynomial has {count:,} variables{'' if exactly else ' or more'}, the limit is "
            f"{MAX_VARIABLES:,}; "
            "split it into polynomials of fewer variables"
        )


def check_terms(terms: int, variables: int, degree: int, where: str = "") -> None:
    """Refuse a polynomial of so many terms before it is built."""
    if terms > MAX_TERMS:
        raise SizeError(
            f"the polynomial{where} could have {_shown(terms)} terms, the limit is {MAX_TERMS:,}; "
            "multiply out fewer factors, or give a polynomial of fewer variables or lower degree"
        )
    size = terms * variables * (1 if degree < 2**7 else 2 if degree < 2**15 else 4)
    if size > MAX_BYTES:
        raise SizeError(
            f"the polynomial{where} could have {terms:,} terms in {variables:,} variables, "
            f"{_shown(size)} bytes of exponents; the limit is {MAX_BYTES:,}. Give a polynomial of "
            "fewer terms or fewer variables"
        )


def check_degree(degree: int) -> None:
    """Refuse a degree that no construction can have."""
    if degree > MAX_EXPONENT:
        raise SizeError(
            f"the degree {_shown(degree)} is beyond {MAX_EXPONENT:,}; give a polynomial of lower degree"
        )


def check_coefficient(bits: int) -> None:
    """Refuse a coefficient that no text could hold."""
    if bits > MAX_COEFFICIENT_BITS:
        raise SizeError(
            f"a coefficient has {bits:,} bits, the limit is {MAX_COEFFICIENT_BITS:,}; round it, or "
            "rescale the variables"
        )


def check_product(left: fmpq_mpoly, right: fmpq_mpoly, where: str = "") -> None:
    """Refuse a product before it is multiplied out."""
    if not len(left) or not len(right):
        return
    degrees = [int(a) + int(b) for a, b in zip(left.degrees(), right.degrees(), strict=True)]
    total = int(left.total_degree()) + int(right.total_degree())
    check_degree(total)
    check_terms(
        most_terms(len(left) * len(right), degrees, total), len(degrees), max(degrees), where
    )


def check_sum(left: fmpq_mpoly, right: fmpq_mpoly, where: str = "") -> None:
    """Refuse a sum before it is formed."""
    if len(left) + len(right) <= MAX_TERMS // MAX_VARIABLES:
        return
    degrees = [max(int(a), int(b)) for a, b in zip(left.degrees(), right.degrees(), strict=True)]
    total = max(int(left.total_degree()), int(right.total_degree()))
    check_terms(
        most_terms(len(left) + len(right), degrees, total), len(degrees), max(degrees), where
    )


def check_power(base: fmpq_mpoly, exponent: int, where: str = "") -> int:
    """Refuse a power before it is multiplied out; return how many terms it has at most."""
    if not len(base) or exponent < 1:
        return 1
    check_degree(int(base.total_degree()) * exponent)
    degrees = [int(degree) * exponent for degree in base.degrees()]
    terms = most_terms(
        power_terms(len(base), exponent), degrees, int(base.total_degree()) * exponent
    )
    check_terms(terms, len(degrees), max(degrees, default=0), where)
    height = max(int(c.height_bits()) for c in base.coeffs())
    size = terms * exponent * (height - 1 + (len(base) - 1).bit_length()) // 8
    if size > MAX_BYTES:
        raise SizeError(
            f"the polynomial{where} could have {_shown(size)} bytes of coefficients, the limit is "
            f"{MAX_BYTES:,}; give a lower power"
        )
    return terms


def power_terms(terms: int, exponent: int) -> int | None:
    """Return how many products of ``exponent`` of the terms there are, where that is soon counted."""
    if terms == 1 or exponent < 1:
        return 1
    return comb(terms + exponent - 1, exponent) if exponent < _COUNTED else None


def most_terms(pairs: int | None, degrees: Sequence[int], total: int) -> int:
    """Return the least of the counts: pairs of terms, box of the degrees, monomials of the degree."""
    box, used = 1, 0
    for degree in degrees:
        box *= degree + 1
        used += degree > 0
    counts = [box] if pairs is None else [box, pairs]
    if min(used, total) < _COUNTED:
        counts.append(comb(used + total, used))
    return min(counts)


def shifted_terms(exponents: Iterable[Sequence[int]], shifted: Sequence[bool]) -> int:
    """Return the terms of a polynomial after x_i → x_i + c_i in the shifted variables."""
    terms = 0
    for monomial in exponents:
        product = 1
        for exponent, moves in zip(monomial, shifted, strict=True):
            product *= int(exponent) + 1 if moves else 1
        terms += product
    return terms


def _shown(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"{Decimal(count):.1e}"
