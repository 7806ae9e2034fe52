"""A polynomial close to tanh(u/2), which the law of a softmax model brings along.

It interpolates at Chebyshev's points. Coq believes nothing of it: it bounds 2p′ − (1 − p²) on the
whole interval, which tells how far p is from the solution tanh(u/2) of 2p′ = 1 − p².
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

from flint import arb, ctx, fmpq, fmpq_poly

from exactformer.algebra.chebyshev import absolute_sum, from_powers, to_powers
from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.errors import CertificationError

_STEP, _MOST = 4, 120
"""Odd powers are added so many at a time, up to so many."""


@dataclass(frozen=True)
class Tangent:
    """Coefficients of u, u³, u⁵, … for |u| ≤ ``upto``; all numbers are short dyadic fractions."""

    upto: Fraction
    odd: tuple[Fraction, ...]


def tangent(upto: Fraction, accuracy: Fraction) -> Tangent:
    """Return a polynomial that Coq will find within ``accuracy`` of tanh(u/2) for |u| ≤ ``upto``.

    Raises:
        CertificationError: if more than 120 powers are needed, or ``upto`` is beyond about 6.
    """
    for count in range(_STEP, _MOST + 1, _STEP):
        digits = ceil(-log2(accuracy)) + 8
        guess = Tangent(upto, _interpolated(upto, count, digits))
        if residual(guess) <= accuracy:
            if is_positive(guess):
                return guess
            break
    raise CertificationError(
        f"logits up to {float(upto):.3g} are too large for the polynomials of the Coq library; "
        "compile with fewer heads, or for a wider format"
    )


def residual(guess: Tangent) -> Fraction:
    """Return the bound of |2p′ − (1 − p²)| that Coq finds."""
    coefficients = [fmpq(0)] * (2 * len(guess.odd))
    coefficients[1::2] = map(to_fmpq, guess.odd)
    p = fmpq_poly(coefficients)
    return to_fraction(absolute_sum(2 * p.derivative() - 1 + p * p, guess.upto))


def is_positive(guess: Tangent) -> bool:
    """Whether Coq will see that p(u)/u is positive: by its Chebyshev coefficients."""
    scaled = [Fraction(0)] * (2 * len(guess.odd))
    scaled[::2] = [c * guess.upto ** (2 * k) for k, c in enumerate(guess.odd)]
    middle, *rest = from_powers(scaled)
    return middle >= sum(map(abs, rest))


def _interpolated(upto: Fraction, count: int, digits: int) -> tuple[Fraction, ...]:
    """Return the coefficients of u, u³, … of the interpolant, each to so many digits at the end."""
    nodes, before = 4 * count, ctx.prec
    ctx.prec = digits + 8 * count + 64
    try:
        angles = [arb(2 * j + 1) / (2 * nodes) for j in range(nodes)]
        half = arb(to_fmpq(upto)) / 2
        values = [(half * angle.cos_pi()).tanh() for angle in angles]
        series = [Fraction(0)] * (2 * count)
        for k in range(1, 2 * count, 2):
            total = sum((v * (k * a).cos_pi() for v, a in zip(values, angles, strict=True)), arb(0))
            series[k] = _dyadic(total * 2 / nodes, digits + 4 * count)
    finally:
        ctx.prec = before
    result = []
    for k, value in enumerate(to_powers(series)):
        if k % 2:
            shift = max(0, digits + ceil(k * log2(upto)) + 2)
            result.append(Fraction(round(value / upto**k * 2**shift), 2**shift))
    return tuple(result)


def _dyadic(value: arb, digits: int) -> Fraction:
    whole = ((value * arb(2) ** digits).mid() + arb(0.5)).floor().unique_fmpz()
    assert whole is not None  # a midpoint is a number, not a range
    return Fraction(int(whole), 2**digits)
