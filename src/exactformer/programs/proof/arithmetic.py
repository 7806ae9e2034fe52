"""Arithmetic of a proof, and arithmetic that it is about.

Tables of a proof are float64. A product of two of them is exact where all entries are multiples of
powers of two and no partial sum has more than 53 bits; otherwise an error bound comes with it.
Bounds are sums of non-negative numbers, of fewer than 2³⁰ terms, whose rounding :func:`up` covers.

What a proof is about is exact arithmetic, or that of a floating-point format with unit u: results
are rounded to nearest, sums taken in any order, zeros add nothing. Where a format flushes, any number
below its normal ones may be taken for zero: when it is computed, and when it is read. Weights of that
size are refused; what a register or a sum may lose so is part of its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float
from exactformer.core.formats import EXP_ULPS, FloatFormat
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, RoundingError

Array = NDArray[np.float64]
Exponents = NDArray[np.int64]

NEVER = 1 << 20
"""The exponent of the lowest bit of zero."""
UNKNOWN = -(1 << 20)
"""That of a number of which only an interval around zero is known."""
_UP = 1 + 2.0**-20
_UNIT = 2.0**-53
_NORMAL, _SMALL = 2.0**-1022, 2.0**-900
"""The smallest number that is never taken for zero, and one of which the last digits are larger."""
LARGEST = 2.0**500
"""No weight or code of a proof is larger: products of two stay finite."""
SMALLEST = 2.0**-200
"""No weight or code of exact arithmetic is smaller unless it is zero, nor any radius: a product of as
many as a proof takes together is not taken for zero. Every certificate starts with exact arithmetic.
"""


@dataclass(frozen=True)
class Arithmetic:
    """Exact arithmetic, or that of a format."""

    format: FloatFormat | None = None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "exact arithmetic" if self.format is None else self.format.name

    def gamma(self, roundings: Any) -> Array:
        """Return γ_k = ku/(1 − ku): what k roundings can lose of a number; 0 in exact arithmetic."""
        k = np.asarray(roundings, dtype=np.float64)
        if self.format is None:
            return np.zeros_like(k)
        ku = k * self.format.unit
        return np.where(ku < 0.5, up(ku / (1 - np.minimum(ku, 0.5))), np.inf)

    @property
    def tiny(self) -> float:
        """What underflow can cost for each term of a sum, and when the sum is read again.

        Where numbers are flushed: the product, the sum with it, and once the whole; these are less than
        four for each term.
        """
        if self.format is None:
            return 0.0
        return 4 * self.format.tiny if self.format.flushes else self.format.tiny

    def flushed(self, centre: Array, radius: Array) -> Array:
        """Return what is lost where numbers are read that may be taken for zero.

        They lie within radii of centres. Zero itself loses nothing.
        """
        if self.format is None or not self.format.flushes:
            return np.zeros(radius.shape)
        small = (np.abs(centre) - radius < self.format.tiny) & ((centre != 0) | (radius > 0))
        return np.where(small, self.format.tiny, 0.0)

    @property
    def exponential(self) -> int:
        """Roundings that the error of one exponential is worth."""
        return 0 if self.format is None else 2 * EXP_ULPS[self.format.name]

    def is_exact(self, bound: Array, lowest: Exponents) -> NDArray[np.bool_]:
        """Return where sums of multiples of 2^lowest, whose sizes add up to a bound, are exact."""
        if self.format is None:
            return np.ones(np.broadcast(bound, lowest).shape, bool)
        reach = np.minimum(lowest + self.format.precision, self.format.high)
        fits = (bound <= 2.0 ** reach.astype(np.float64)) & (bound < 2.0**self.format.high)
        return np.asarray(fits & (lowest >= self.format.low))

    def check_range(self, bound: Any, name: str) -> None:
        """Raise unless sums whose terms' sizes add up to a bound stay finite, in any order."""
        if self.format is not None and not np.max(bound, initial=0.0) < 2.0**self.format.high:
            raise CertificationError(f"{name} can overflow in {self.format.name}")

    def weights(self, matrix: Matrix) -> tuple[Array, Array]:
        """Return a matrix as the model has it, and how far the entries are from that.

        A model in a format has rounded weights, and the float64 here are just these.
        """
        values = np.zeros(matrix.shape)
        errors = np.zeros(matrix.shape)
        known: dict[Fraction, tuple[float, float]] = {}
        for i, j, value in matrix:
            if value not in known:
                known[value] = self._weight(value)
            values[i, j], errors[i, j] = known[value]
        return values, errors

    def _weight(self, value: Fraction) -> tuple[float, float]:
        if self.format is None:
            nearest = to_float(value)
            if abs(nearest) < SMALLEST:
                raise RoundingError(f"a weight or code is below {SMALLEST:.3g}, and not zero")
        else:
            rounded = self.format.round(value)
            if rounded is None:
                raise RoundingError(f"a weight is beyond {self.format.name}")
            nearest = float(rounded)
            if self.format.flushes and abs(nearest) < self.format.tiny:
                raise RoundingError(
                    f"a weight of size {abs(nearest):.3g} is below the normal numbers of "
                    f"{self.format.name}, and some processors take it for zero"
                )
        if abs(nearest) > LARGEST:
            raise RoundingError(f"a weight of size {abs(nearest):.3g} is beyond {LARGEST:.3g}")
        exact = self.format is not None or Fraction(nearest) == value
        return nearest, 0.0 if exact else abs(nearest) * _UNIT


def up(bound: Any) -> Array:
    """Return a bound that covers the rounding of what it was computed from."""
    return np.asarray(np.asarray(bound, dtype=np.float64) * _UP)


def at_least_smallest(radius: Array | float) -> Array:
    """Return radii of which none is smaller than :data:`SMALLEST` unless it is zero."""
    radius = np.asarray(radius, dtype=np.float64)
    return np.where(radius > 0, np.maximum(radius, SMALLEST), radius)


def centres(matrix: Matrix) -> tuple[Array, Array]:
    """Return a matrix in float64, and how far each entry can be from that."""
    return Arithmetic().weights(matrix)


def lowest_bits(array: Array) -> Exponents:
    """Return the exponent of the lowest bit of every number.

    >>> lowest_bits(np.array([1.5, 4.0, 0.0])).tolist() == [-1, 2, NEVER]
    True
    """
    mantissa, exponent = np.frexp(array)
    whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    _, above = np.frexp((whole & -whole).astype(np.float64))  # exact, as no logarithm has to be
    return np.where(whole > 0, exponent.astype(np.int64) - 54 + above, NEVER)


def times(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a product of matrices, and how far each entry can be from it."""
    found = a @ b
    sizes = np.abs(a) @ np.abs(b)
    if not a.size or not b.size:
        return found, np.zeros(found.shape)
    lowest = int(lowest_bits(a).min()) + int(lowest_bits(b).min())
    if lowest > -1000 and float(sizes.max()) < 2.0 ** min(lowest + 53, 1000):
        return found, np.zeros(found.shape)
    return found, up(sizes * a.shape[-1] * _UNIT) + 1e-300


def plus(a: Array | float, b: Array | float) -> tuple[Array, Array]:
    """Return a sum, and how far it is from the true one, exactly: 0 where nothing is rounded.

    A sum of numbers so small that what is lost may be taken for zero counts as rounded.

    >>> [part.tolist() for part in plus(2.0**53, 1.0)]
    [9007199254740992.0, 1.0]
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    found = a + b
    second = found - a
    lost = np.abs((a - (found - second)) + (b - second))
    small = (np.maximum(np.abs(a), np.abs(b)) < _SMALL) & (a != 0) & (b != 0)
    return found, np.where(small, np.maximum(lost, _NORMAL), lost)


def sum_below(a: Array | float, b: Array | float) -> Array:
    """Return a sum that is not above the true one."""
    found, lost = plus(a, b)
    return np.where(lost > 0, np.minimum(np.nextafter(found, -np.inf), found - _NORMAL), found)


def sum_above(a: Array | float, b: Array | float) -> Array:
    """Return a sum that is not below the true one."""
    found, lost = plus(a, b)
    return np.where(lost > 0, np.maximum(np.nextafter(found, np.inf), found + _NORMAL), found)
