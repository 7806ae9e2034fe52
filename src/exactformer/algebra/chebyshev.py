"""From powers to Chebyshev polynomials and back, exactly.

    t^s = 2^(1−s) Σ_{k ≤ s/2} C(s, k) T_{s−2k}(t),        the term T_0, where there is one, halved.

All weights are non-negative and add up to 1, so the sum of absolute coefficients never grows on the
way to Chebyshev polynomials. Since |T_k| ≤ 1 on [−1, 1], that sum bounds the polynomial there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb

from flint import fmpq, fmpq_mat, fmpq_poly

from exactformer.algebra.rational import to_fmpq, to_fraction


def from_powers(coefficients: Sequence[Fraction]) -> list[Fraction]:
    """Return c with Σ a_s t^s = Σ c_k T_k(t), a constant first.

    >>> from_powers([Fraction(0), Fraction(0), Fraction(1)])
    [Fraction(1, 2), Fraction(0, 1), Fraction(1, 2)]
    """
    return [to_fraction(c) for c in _convert([to_fmpq(a) for a in coefficients])]


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
        scaled.append(fmpq(a) * power)
        power *= r
    return sum((abs(c) for c in _convert(scaled)), fmpq(0))


def _convert(powers: Sequence[fmpq]) -> list[fmpq]:
    column = fmpq_mat(len(powers), 1, list(powers))
    return [fmpq(c) for c in (_matrix(len(powers)) * column).entries()]


@lru_cache(maxsize=64)
def _matrix(size: int) -> fmpq_mat:
    """Return the matrix that takes coefficients of powers to those of T_0, …, T_{size−1}."""
    entries = [[fmpq(0)] * size for _ in range(size)]
    for s in range(size):
        for k in range(s // 2 + 1):
            degree = s - 2 * k
            entries[degree][s] = fmpq(comb(s, k) * (1 if degree == 0 else 2), 2**s)
    return fmpq_mat(size, size, [c for row in entries for c in row])
