"""From powers to Chebyshev polynomials and back, exactly.

    t^s = 2^(1−s) Σ_{k ≤ s/2} C(s, k) T_{s−2k}(t),        the term T_0, where there is one, halved.

All weights are non-negative and add up to 1, so the sum of absolute coefficients never grows on the
way to Chebyshev polynomials. Since |T_k| ≤ 1 on [−1, 1], that sum bounds the polynomial there.

With t = (z + 1/z)/2 and T_k(t) = (z^k + 1/z^k)/2 the coefficients are read off a polynomial in z, which
is put together by halves: few products of long polynomials in place of many sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import floor, log2

from flint import fmpq, fmpq_poly, fmpz, fmpz_poly

from exactformer.algebra.rational import to_float, to_fmpq, to_fraction

_DIGITS = 100
"""Binary digits of a sum that are found before it is rounded to float64."""
_STEP = 1024
"""Digits of powers are found so many at a time, so that polynomials share them."""


def from_powers(coefficients: Sequence[Fraction]) -> list[Fraction]:
    """Return c with Σ a_s t^s = Σ c_k T_k(t), a constant first.

    >>> from_powers([Fraction(0), Fraction(0), Fraction(1)])
    [Fraction(1, 2), Fraction(0, 1), Fraction(1, 2)]
    """
    polynomial = fmpq_poly([to_fmpq(a) for a in coefficients])
    numerators, size = polynomial.numer().coeffs(), len(coefficients)
    whole = _convert([*numerators, *[fmpz(0)] * (size - len(numerators))])
    return [to_fraction(fmpq(c, polynomial.denom() << (size - 1))) for c in whole]


def to_powers(coefficients: Sequence[Fraction]) -> list[Fraction]:
    """Return a with Σ c_k T_k(t) = Σ a_s t^s, by Clenshaw's recurrence on polynomials."""
    above, current = fmpq_poly([]), fmpq_poly([])
    twice = fmpq_poly([0, 2])
    for c in reversed(coefficients[1:]):
        above, current = current, twice * current - above + fmpq_poly([to_fmpq(c)])
    total = fmpq_poly([0, 1]) * current - above + fmpq_poly([to_fmpq(c) for c in coefficients[:1]])
    powers = [to_fraction(fmpq(a)) for a in total.coeffs()]
    return powers + [Fraction(0)] * (len(coefficients) - len(powers))


def absolute_sum(polynomial: fmpq_poly, reach: Fraction) -> fmpq:
    """Return Σ|c_k| of p(reach·u) in Chebyshev polynomials: a bound of |p(t)| on |t| ≤ reach."""
    r, power, scaled = to_fmpq(reach), fmpq(1), []
    for a in polynomial.coeffs():
        scaled.append(a * power)
        power *= r
    exact = fmpq_poly(scaled)
    whole = _convert(exact.numer().coeffs())
    return fmpq(sum(map(abs, whole), fmpz(0)), exact.denom() << max(len(whole) - 1, 0))


def nearest_absolute_sum(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return the float64 nearest to :func:`absolute_sum`, which may have thousands of digits.

    The polynomial is not constant, and the reach positive. Where the first digits leave a choice, all
    of them decide.
    """
    low, high = map(to_float, _enclosure(polynomial, reach))
    return low if low == high else to_float(absolute_sum(polynomial, reach))


def _enclosure(polynomial: fmpq_poly, reach: Fraction) -> tuple[fmpq, fmpq]:
    """Return bounds of the absolute sum that agree in about ``_DIGITS`` digits.

    Coefficients of p(reach·u) are cut off first. As no sum of absolute values grows on the way, what is
    lost in all of them is what the result can be off by.
    """
    a, denominator = polynomial.numer().coeffs(), polynomial.denom()
    degree = len(a) - 1
    # The last coefficient, a_m (r/2)^m, shows how small the sum may be.
    steps = log2(reach.numerator) - log2(reach.denominator) - 1
    last = log2(abs(int(a[-1]))) - log2(int(denominator)) + degree * steps
    places = max(_DIGITS - floor(last), 0)
    longest = max(c.bit_length() for c in a) - denominator.bit_length() + 1
    digits = -(-max(places + longest, places) // _STEP) * _STEP
    # |a_k| < 2^(digits − places): a_k·r^k is off by at most 2^−places, and by as much when cut off.
    divisor = denominator << (digits - places)
    powers = _powers(reach, digits, degree)
    cut = [c * power // divisor for c, power in zip(a, powers, strict=True)]
    found, loss = sum(map(abs, _convert(cut)), fmpz(0)), fmpz(2 * len(a)) << degree
    unit = fmpz(1) << (places + degree)
    return fmpq(found - loss, unit), fmpq(found + loss, unit)


@lru_cache(maxsize=64)
def _powers(reach: Fraction, digits: int, degree: int) -> list[fmpz]:
    """Return ⌊r^k·2^digits⌋ for k up to a degree."""
    p, q = fmpz(reach.numerator), fmpz(reach.denominator)
    numerator, denominator, powers = fmpz(1) << digits, fmpz(1), []
    for _ in range(degree + 1):
        powers.append(numerator // denominator)
        numerator, denominator = numerator * p, denominator * q
    return powers


def _convert(powers: Sequence[fmpz]) -> list[fmpz]:
    """Return 2^m c_0, …, 2^m c_m with Σ a_s t^s = Σ c_k T_k(t), m the degree.

    Even and odd powers apart: with y = z², t^2s = ((1 + y)²/4y)^s and t = (1 + y)/2z.
    """
    degree = len(powers) - 1
    result = [fmpz(0)] * len(powers)
    for odd in (0, 1):
        part = powers[odd::2]
        if not any(part):
            continue
        middle = len(part) - 1
        halves = _homogeneous(part) * fmpz_poly([1, 1]) ** odd
        for k, c in enumerate(halves.coeffs()[middle + odd :]):
            # Of y^k and y^−k half each is T_2k, but all of y^0 is T_0.
            result[2 * k + odd] = c << (degree - 2 * middle + (1 if k and not odd else 0))
    return result


def _homogeneous(a: Sequence[fmpz]) -> fmpz_poly:
    """Return Σ_s a_s (1 + y)^2s (4y)^(m−s) for m + 1 numbers."""
    if len(a) == 1:
        return fmpz_poly([a[0]])
    half = 1 << (len(a) - 1).bit_length() - 1
    low, high = _homogeneous(a[:half]), _homogeneous(a[half:])
    rest = len(a) - half
    shifted: fmpz_poly = (low * 4**rest).left_shift(rest)
    return shifted + _binomials(2 * half) * high


@lru_cache(maxsize=32)
def _binomials(exponent: int) -> fmpz_poly:
    return fmpz_poly([1, 1]) ** exponent
