"""Upper bounds in float64 that stay upper bounds: every operation rounds up.

A formula for a bound is written as on paper, and what float64 loses on the way is added by the type.
Of a result rounded to nearest the next float64 is at least the true value. A zero is an exact zero and
stays one, because exact zeros are what makes sparse sums cheap to bound; whatever else a result is, it
is at least the smallest normal number, which no processor takes for zero. What is not a number stays
so, and fails every comparison that would make it a bound. What overflows
is infinite; who bounds numbers that may, keeps NumPy's warnings quiet (``np.errstate``).

>>> third = Upper.of(Fraction(1, 3))
>>> Fraction(float(third)) > Fraction(1, 3)
True
>>> Fraction(float(third * third + third)) > Fraction(4, 9)
True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, nextafter
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import ArrayLike, NDArray

from exactformer.algebra.rational import to_float
from exactformer.core.arrays import Array

Mask = NDArray[np.bool_]

_SMALLEST = float(np.finfo(np.float64).tiny)
_STEP = 1 + 2.0**-52
"""x·2⁻⁵² is at least the distance of a normal x to the next float64."""


class Upper:
    """Upper bounds of non-negative numbers, an array of any shape.

    Plain numbers and arrays that meet it in a sum or product are taken as they are: they must be exact,
    or upper bounds themselves. There is no difference of two upper bounds, so the type has none.
    """

    __slots__ = ("values",)
    __array_ufunc__ = None  # arrays leave mixed sums and products to this type

    def __init__(self, values: ArrayLike) -> None:
        self.values: Array = np.asarray(values, dtype=np.float64)

    @classmethod
    def of(cls, value: Fraction) -> Upper:
        """Return a bound of |value|."""
        return cls(above(value))

    @classmethod
    def zeros(cls, shape: int | Sequence[int]) -> Upper:
        """Return exact zeros."""
        return cls(np.zeros(shape))

    @classmethod
    def stack(cls, parts: Iterable[Upper]) -> Upper:
        """Return bounds side by side, along a new first axis."""
        return cls(np.stack([part.values for part in parts]))

    def __add__(self, other: Upper | ArrayLike) -> Upper:
        """Add, rounded up. No sum underflows, so zero is found where both are zero only."""
        return Upper(_times(self.values + _values(other), _STEP))

    __radd__ = __add__

    def __mul__(self, other: Upper | ArrayLike) -> Upper:
        """Multiply, rounded up; zero times anything is zero."""
        a, b = self.values, _values(other)
        return Upper(_zero(_outwards(a * b), (a == 0) | (b == 0)))

    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> Upper:
        """Divide by positive numbers that are exact, or lower bounds."""
        found = self.values / np.asarray(divisor, dtype=np.float64)
        return Upper(_zero(_outwards(found), self.values == 0))

    def __pow__(self, exponent: int) -> Upper:
        """Multiply by itself, from left to right."""
        result = Upper(np.ones_like(self.values))
        for _ in range(exponent):
            result = result * self
        return result

    def __matmul__(self, other: Upper) -> Upper:
        """Multiply matrices, rounded up; a sum of products of which all are zero is zero."""
        a, b = self.values, other.values
        found = (a @ b) * _after(a.shape[-1]) + a.shape[-1] * _SMALLEST
        some: Mask = (a != 0).astype(float) @ (b != 0).astype(float) > 0
        return Upper(_zero(_outwards(found), ~some))

    def sum(self, axis: int | None = None) -> Upper:
        """Add along an axis, or all, in whatever order."""
        terms = self.values.size if axis is None else self.values.shape[axis]
        return Upper(self.values.sum(axis=axis) * _after(terms))

    def root(self) -> Upper:
        """Return the square root."""
        return Upper(np.sqrt(self.values) * _STEP)

    def max(self, axis: int | None = None) -> Upper:
        """Return the largest along an axis, or of all; zero where there is none."""
        return Upper(self.values.max(axis=axis, initial=0.0))

    def or_above(self, other: Upper | ArrayLike) -> Upper:
        """Return the larger of two, entry by entry."""
        return Upper(np.maximum(self.values, _values(other)))

    def or_below(self, other: Upper | ArrayLike) -> Upper:
        """Return the smaller of two bounds of the same numbers, entry by entry."""
        return Upper(np.minimum(self.values, _values(other)))

    def where(self, mask: Mask) -> Upper:
        """Return exact zeros outside a mask."""
        return Upper(np.where(mask, self.values, 0.0))

    def __lt__(self, limit: ArrayLike) -> Any:
        """Return where the numbers are below a limit for certain."""
        return self.values < np.asarray(limit, dtype=np.float64)

    @property
    def nonzero(self) -> Mask:
        """Where the numbers can differ from zero."""
        return np.asarray(self.values != 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.values.shape

    @property
    def transposed(self) -> Upper:
        """The bounds with their axes in reverse."""
        return Upper(self.values.T)

    def to(self, shape: Sequence[int]) -> Upper:
        """Return the bounds repeated to a shape."""
        return Upper(np.broadcast_to(self.values, shape))

    def copy(self) -> Upper:
        """Return bounds that can be changed on their own."""
        return Upper(self.values.copy())

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return len(self.values)

    def __getitem__(self, place: Any) -> Upper:
        """Return some of the bounds."""
        return Upper(self.values[place])

    def __setitem__(self, place: Any, values: Upper | ArrayLike) -> None:
        """Take other bounds in some places."""
        self.values[place] = _values(values)

    def __float__(self) -> float:
        """Return the bound of a single number."""
        return float(self.values)

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"Upper({self.values!r})"


def gamma(roundings: Upper | ArrayLike, unit: float) -> Upper:
    """Return γ_k = ku/(1 − ku); infinite where so many roundings leave no digit."""
    ku = _values(roundings) * unit  # exact: the unit is a power of two
    kept = np.nextafter(1 - np.minimum(ku, 0.5), 0.0)
    return Upper(np.where(ku < 0.5, (Upper(ku) / kept).values, np.inf))


def above(value: Fraction) -> float:
    """Return a float64 at least |value|; zero only for zero."""
    return next_above(abs(to_float(value))) if value else 0.0


def next_above(nearest: float) -> float:
    """Return a float64 at least a positive number of which this is the nearest."""
    return max(nextafter(nearest, inf), _SMALLEST)


def float_above(value: Fraction) -> float:
    """Return the smallest float64 that is not below a rational; its own value where it is one.

    It is zero or a normal number, which no processor takes for another: below the smallest one float64
    itself cannot be trusted to tell what is above.
    """
    if abs(value) < _SMALLEST:
        return _SMALLEST if value > 0 else 0.0
    nearest = to_float(value)
    return nearest if nearest >= value else nextafter(nearest, inf)


def exp_above(exponent: Fraction) -> Fraction:
    """Return a rational that is at least exp(x), by a factor of at most 1 + (|x| + 2)·2⁻⁵⁰.

    It is the upper end of a ball of 53 bits, as x is. Below −700 it is the one for −700, near where
    float64 ends.
    """
    most = max(exponent, Fraction(-700))
    digits, shift = arb(fmpq(most.numerator, most.denominator)).exp().upper().man_exp()
    return int(digits) * Fraction(2) ** int(shift)


def below(value: Fraction) -> float:
    """Return a float64 at most ``value``."""
    return nextafter(to_float(value), -inf)


def _outwards(nearest: Array) -> Array:
    """Raise these to what is at least the numbers of which they are the nearest float64, none zero."""
    raised = _times(nearest, _STEP)
    return np.maximum(raised, _SMALLEST, out=raised)


# Tables have tens of millions of entries, and asking for memory costs more than the arithmetic: a table
# that was just made is changed in place.


def _times(made: Array, factor: float) -> Array:
    made = np.asarray(made)
    return np.multiply(made, factor, out=made)


def _zero(made: Array, mask: Mask) -> Array:
    np.copyto(made, 0.0, where=mask)
    return made


def _after(roundings: int) -> float:
    """Return an exact factor above 1/(1 − 2⁻⁵³)^k, what k roundings can lose."""
    return 1 + roundings * 2.0**-52


def _values(number: Upper | ArrayLike) -> Array:
    return number.values if isinstance(number, Upper) else np.asarray(number, dtype=np.float64)
