"""Where a model is promised to be right: a ball or a box, exactly.

Both have a centre c, and a model's features see x − c. Local coordinates u are those in which a
construction works: u = x − c in a ball, u_j = (x_j − c_j)/h_j ∈ [−1, 1] in a box of half-widths h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import isqrt
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Row = Sequence[tuple[int, Fraction]]
"""The entries of a row of F: (column, value)."""


@dataclass(frozen=True)
class Ball:
    """‖x − centre‖ ≤ radius; an empty centre is the origin of any space."""

    radius: Fraction
    centre: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        _settle(self, radius=_length(self.radius), centre=_numbers(self.centre))

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the ball is one in so many variables."""
        if len(self.centre) not in (0, dimension):
            raise InputError(
                f"the centre of the ball has {len(self.centre)} coordinates for {dimension} variables"
            )

    def enlarged(self, factor: Fraction) -> Ball:
        """Return the ball blown up from its centre."""
        return Ball(self.radius * factor, self.centre)

    def offset(self, coordinate: int) -> Fraction:
        """Return a coordinate of the centre."""
        return self.centre[coordinate] if self.centre else Fraction(0)

    def unit(self, coordinate: int) -> Fraction:
        """Return what one local unit is in x."""
        return Fraction(1)

    def extent(self, coordinate: int) -> Fraction:
        """Return the largest |x_j − c_j|."""
        return self.radius

    def local_reach(self, direction: Sequence[Fraction]) -> Fraction:
        """Return a bound of |ξ·u| for a direction with ‖ξ‖ ≤ 1."""
        return self.radius

    def reach(self, row: Row) -> Fraction:
        """Return a bound of |F_i·(x − c)|, rounded up where the root is not rational."""
        square = sum((value * value for _, value in row), Fraction(0))
        return root_above(square * self.radius * self.radius)

    def __str__(self) -> str:
        if not any(self.centre):
            return f"‖x‖ ≤ {self.radius}"
        return f"‖x − ({', '.join(map(str, self.centre))})‖ ≤ {self.radius}"


@dataclass(frozen=True)
class Box:
    """|x_j − centre_j| ≤ half_widths_j for every coordinate."""

    centre: tuple[Fraction, ...]
    half_widths: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        centre, lengths = _numbers(self.centre), _numbers(self.half_widths)
        if not centre or len(centre) != len(lengths):
            raise InputError(
                "a box needs a half-width for each coordinate of its centre, and at least one; "
                f"there are {len(lengths)} for {len(centre)}"
            )
        _settle(self, centre=centre, half_widths=tuple(map(_length, lengths)))

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the box is one in so many variables."""
        if len(self.centre) != dimension:
            raise InputError(f"the box has {len(self.centre)} sides for {dimension} variables")

    @classmethod
    def of(cls, intervals: Sequence[tuple[Fraction, Fraction]]) -> Box:
        """Return the product of intervals (lower, upper).

        >>> print(Box.of([(Fraction(0), Fraction(1))] * 2))
        [0, 1]²
        """
        return cls(
            tuple((low + high) / 2 for low, high in intervals),
            tuple((high - low) / 2 for low, high in intervals),
        )

    @property
    def radius(self) -> Fraction:
        """Half the diagonal, rounded up: the ball round the centre that contains the box."""
        return root_above(sum((h * h for h in self.half_widths), Fraction(0)))

    @property
    def intervals(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The sides as (lower, upper)."""
        sides = zip(self.centre, self.half_widths, strict=True)
        return tuple((c - h, c + h) for c, h in sides)

    def enlarged(self, factor: Fraction) -> Box:
        """Return the box blown up from its centre."""
        return Box(self.centre, tuple(h * factor for h in self.half_widths))

    def offset(self, coordinate: int) -> Fraction:
        """Return a coordinate of the centre."""
        return self.centre[coordinate]

    def unit(self, coordinate: int) -> Fraction:
        """Return what one local unit is in x."""
        return self.half_widths[coordinate]

    def extent(self, coordinate: int) -> Fraction:
        """Return the largest |x_j − c_j|."""
        return self.half_widths[coordinate]

    def local_reach(self, direction: Sequence[Fraction]) -> Fraction:
        """Return the largest |ξ·u|; 1 for the idle direction, by which one may divide."""
        return sum(map(abs, direction), Fraction(0)) or Fraction(1)

    def reach(self, row: Row) -> Fraction:
        """Return the largest |F_i·(x − c)|."""
        return sum((abs(v) * self.half_widths[j] for j, v in row), Fraction(0))

    def __str__(self) -> str:
        powers = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
        sides = []
        for (low, high), group in groupby(self.intervals):
            count = len(list(group))
            sides.append(f"[{low}, {high}]{str(count).translate(powers) if count > 1 else ''}")
        return " × ".join(sides)


Domain = Ball | Box


def _numbers(values: Any) -> tuple[Fraction, ...]:
    if isinstance(values, str):
        raise InputError(f"coordinates are a tuple of rational numbers, not {values!r}")
    try:
        return tuple(map(_rational, values))
    except TypeError:
        raise InputError(f"coordinates are a tuple of rational numbers, not {values!r}") from None


def _length(value: Any) -> Fraction:
    length = _rational(value)
    if length <= 0:
        raise InputError(f"a radius or half-width must be positive, not {value}")
    return length


def _rational(value: Any) -> Fraction:
    """Return a Fraction of Python's integers, whatever rational number is given."""
    if type(value) is Fraction and type(value.numerator) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise InputError(f"a domain is exact: {value!r} is not a Fraction or an integer")
    return Fraction(int(value.numerator), int(value.denominator))


def _settle(domain: Ball | Box, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(domain, name, value)  # the class is frozen


def as_domain(domain: Domain | Fraction | int) -> Domain:
    """Return a domain; a number is the radius of a ball round the origin."""
    return domain if isinstance(domain, Ball | Box) else Ball(Fraction(domain))


def root_above(square: Fraction, bits: int = 64) -> Fraction:
    """Return a rational just above √square, exact where the root is rational.

    >>> root_above(Fraction(9, 16))
    Fraction(3, 4)
    """
    numerator, denominator = isqrt(square.numerator), isqrt(square.denominator)
    if numerator**2 == square.numerator and denominator**2 == square.denominator:
        return Fraction(numerator, denominator)
    # Scale so that the integer root has about ``bits`` significant bits.
    shift = bits - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = square * Fraction(4) ** shift
    return (isqrt(scaled.numerator // scaled.denominator) + 1) / Fraction(2) ** shift


def points_in_ball(count: int, dimension: int, radius: float, seed: int = 0) -> NDArray[np.float64]:
    """Return points ``(count, dimension)`` uniform in the ball, the same for the same seed."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, dimension))
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    distance = rng.random((count, 1)) ** (1 / max(dimension, 1))
    return np.asarray(points * (radius * distance / np.where(norms > 0, norms, 1)))


def points_in_domain(
    count: int, domain: Domain, dimension: int, seed: int = 0
) -> NDArray[np.float64]:
    """Return points uniform in a ball or a box, the same for the same seed."""
    axes = range(dimension)
    centre = np.array([float(domain.offset(j)) for j in axes])
    if isinstance(domain, Ball):
        return centre + points_in_ball(count, len(axes), float(domain.radius), seed)
    extent = np.array([float(h) for h in domain.half_widths])
    return centre + np.random.default_rng(seed).uniform(-extent, extent, (count, len(axes)))
