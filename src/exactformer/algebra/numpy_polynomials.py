"""NumPy's polynomials of one variable, exactly in powers: ``poly1d`` and ``np.polynomial``.

A series Σ c_n p_n(u), u = a + b·x, is multiplied out over the rationals. Its floats are the binary
numbers they are, those of ``domain`` and ``window``, which make up a and b, included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import fmpq, fmpq_poly
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

from exactformer.algebra.rational import to_fmpq
from exactformer.errors import InputError, SizeError

MAX_SERIES_DEGREE = 1_000
"""Coefficients in powers have about as many digits as the degree, times those of the domain."""

# p_(n+1) = (s·u + t)·p_n − r·p_(n−1): the numbers s, t, r for n, with p_0 = 1 and p_(−1) = 0.
_RECURRENCES: dict[type[Any], Callable[[int], tuple[fmpq | int, fmpq | int, fmpq | int]]] = {
    Chebyshev: lambda n: (2 if n else 1, 0, 1),
    Legendre: lambda n: (fmpq(2 * n + 1, n + 1), 0, fmpq(n, n + 1)),
    Hermite: lambda n: (2, 0, 2 * n),
    HermiteE: lambda n: (1, 0, n),
    Laguerre: lambda n: (fmpq(-1, n + 1), fmpq(2 * n + 1, n + 1), fmpq(n, n + 1)),
}

KINDS = (np.poly1d, Polynomial, *_RECURRENCES)
"""What :func:`powers` reads."""


def powers(polynomial: Any) -> tuple[str, list[fmpq]]:
    """Return the variable's name and the coefficients of 1, x, x², …

    >>> powers(np.polynomial.Chebyshev([0, 0, 1]))
    ('x', [-1, 0, 2])
    """
    if isinstance(polynomial, np.poly1d):
        return str(polynomial.variable), [to_fmpq(c) for c in polynomial.coeffs[::-1]]
    coefficients = [to_fmpq(c) for c in polynomial.coef]
    inner = _argument(polynomial)
    if len(coefficients) > MAX_SERIES_DEGREE + 1 and not _is_plain(polynomial, inner):
        raise SizeError(
            f"the series has degree {len(coefficients) - 1:,}, the limit is {MAX_SERIES_DEGREE:,}: "
            "its coefficients in powers would have as many digits. Truncate it"
        )
    series = fmpq_poly(coefficients)
    recurrence = _RECURRENCES.get(type(polynomial))
    if recurrence is not None:
        series = _in_powers(coefficients, recurrence)
    series = series if inner == fmpq_poly([0, 1]) else series(inner)
    return str(polynomial.symbol), [fmpq(c) for c in series.coeffs()]


def _in_powers(
    coefficients: list[fmpq],
    recurrence: Callable[[int], tuple[fmpq | int, fmpq | int, fmpq | int]],
) -> fmpq_poly:
    total, before, here = fmpq_poly(0), fmpq_poly(0), fmpq_poly([1])
    for n, coefficient in enumerate(coefficients):
        total += coefficient * here
        s, t, r = recurrence(n)
        before, here = here, fmpq_poly([t, s]) * here - r * before
    return total


def _argument(polynomial: Any) -> fmpq_poly:
    """Return a + b·x, which maps the domain of a series onto its window."""
    (low, high), (bottom, top) = (
        [to_fmpq(end) for end in ends] for ends in (polynomial.domain, polynomial.window)
    )
    if low == high:
        raise InputError(f"the domain of the series is a single point, {polynomial.domain[0]}")
    slope = (top - bottom) / (high - low)
    return fmpq_poly([bottom - slope * low, slope])


def _is_plain(polynomial: Any, inner: fmpq_poly) -> bool:
    """Whether the coefficients are those of powers as they stand."""
    return isinstance(polynomial, Polynomial) and inner == fmpq_poly([0, 1])
