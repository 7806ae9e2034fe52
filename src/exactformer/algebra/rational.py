"""Exact rationals: Python's ``Fraction`` at the surface, FLINT's ``fmpq`` where work is done."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from flint import fmpq, fmpz

from exactformer.algebra.limits import MAX_DECIMAL_EXPONENT
from exactformer.errors import InputError

Number = int | float | Fraction | Decimal | Rational


def to_fmpq(value: object) -> fmpq:
    """Return ``value`` as an exact rational; a float stands for the binary number it is."""
    if isinstance(value, fmpq):
        return value
    if isinstance(value, int | fmpz):
        return fmpq(value)
    if isinstance(value, Rational):
        return fmpq(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal) and value.is_finite() and value:
        _, digits, exponent = value.as_tuple()
        if abs(int(exponent)) > MAX_DECIMAL_EXPONENT + len(digits):
            raise InputError(
                f"{value:.5e} has a decimal exponent beyond ±{MAX_DECIMAL_EXPONENT:,}; rescale the "
                "variables"
            )
    try:
        numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
    except (AttributeError, OverflowError, ValueError):
        raise InputError(f"{value!r} is not a finite number; exact arithmetic needs one") from None
    return fmpq(int(numerator), int(denominator))


def to_fraction(value: fmpq) -> Fraction:
    """Return a FLINT rational as a ``Fraction`` (already in lowest terms)."""
    return Fraction(int(value.p), int(value.q))


def to_float(value: fmpq | Fraction) -> float:
    """Round to the nearest float64; what is too large becomes an infinity of its sign."""
    fraction = value if isinstance(value, Fraction) else to_fraction(value)
    try:
        return float(fraction)
    except OverflowError:
        return math.inf if fraction > 0 else -math.inf


def bits(value: fmpq) -> int:
    """Return the size of a rational: bits of its larger part."""
    return int(value.height_bits())
