"""Ridge forms (Fang et al., Lemma 3.3).

    Q(x) = Q(0) + Σ_k Σ_s β[k, s] (ξ_k · x)^s,     ‖ξ_k‖ ≤ 1,  s = 1, …, q

A family of directions delivers *ridges*: integer vectors v with coefficients of (v·x)^s. Here they
become directions ξ = v/c with a rational c just above ‖v‖, and β takes up c^s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.rational import to_float, to_fraction
from exactformer.algebra.ring import ring

Direction = tuple[int, ...]
Ridges = Mapping[Direction, Mapping[int, fmpq]]
"""{v: {s: coefficient of (v·x)^s}}"""

_NORM_DENOMINATOR = 1024


@dataclass(frozen=True)
class RidgeForm:
    """A polynomial as a sum of powers of linear forms; every number exact."""

    variables: tuple[str, ...]
    constant: Fraction
    directions: tuple[tuple[Fraction, ...], ...]
    beta: tuple[tuple[Fraction, ...], ...]
    degree: int
    family: str

    @property
    def width(self) -> int:
        """The number n of directions: one token each."""
        return len(self.directions)

    def to_polynomial(self) -> Polynomial:
        """Multiply out, exactly."""
        dimension = len(self.variables)
        ctx = ring(dimension)
        total = ctx.constant(fmpq(self.constant.numerator, self.constant.denominator))
        unit = [tuple(int(i == j) for j in range(dimension)) for i in range(dimension)]
        for direction, row in zip(self.directions, self.beta, strict=True):
            linear = ctx.from_dict(
                {unit[i]: fmpq(c.numerator, c.denominator) for i, c in enumerate(direction) if c}
            )
            for s, b in enumerate(row, start=1):
                if b:
                    total += linear**s * fmpq(b.numerator, b.denominator)
        return Polynomial(self.variables, total)

    def amplification(self, radius: float | Fraction = 1, samples: int = 256) -> float:
        """Return how much larger the absolute terms are than the result, on the sphere.

        The median of Σ|β||ξ·x|^s over points of norm ``radius``, divided by the root mean square
        of Q there: the factor by which relative rounding errors grow. 1 is the best possible;
        infinity stands for a polynomial that vanishes on the sphere.
        """
        dimension, scale = len(self.variables), float(radius)
        rng = np.random.default_rng(0)
        points = rng.normal(size=(samples, dimension))
        points *= scale / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-300)
        features = points @ floats(self.directions, (self.width, dimension)).T
        beta = floats(self.beta, (self.width, self.degree))
        with np.errstate(over="ignore", invalid="ignore"):
            absolute = np.full(samples, abs(to_float(self.constant)))
            value = np.full(samples, to_float(self.constant))
            power = np.ones_like(features)
            for s in range(self.degree):
                power = power * features
                absolute += np.abs(power) @ np.abs(beta[:, s])
                value += power @ beta[:, s]
            size = float(np.sqrt(np.mean(value**2)))
            if size == 0 or not np.isfinite(size):
                return 1.0 if not absolute.any() else float("inf")
            return max(1.0, float(np.median(absolute)) / size)


def floats(rows: tuple[tuple[Fraction, ...], ...], shape: tuple[int, int]) -> NDArray[Any]:
    """Round a table of fractions to float64."""
    return np.array([[to_float(c) for c in row] for row in rows], dtype=float).reshape(shape)


def assemble(polynomial: Polynomial, ridges: Ridges, family: str, degree: int) -> RidgeForm:
    """Scale ridges to norm at most one. A constant gets one idle direction: a model has a token."""
    dimension = polynomial.dimension
    directions, beta = [], []
    idle = {tuple(int(i == 0) for i in range(dimension)): dict[int, fmpq]()}
    for vector, powers in (ridges or idle).items():
        scale = norm_bound(vector)
        directions.append(tuple(Fraction(v) / scale for v in vector))
        beta.append(
            tuple(
                to_fraction(powers[s]) * scale**s if s in powers else Fraction(0)
                for s in range(1, degree + 1)
            )
        )
    return RidgeForm(
        polynomial.variables, polynomial.constant, tuple(directions), tuple(beta), degree, family
    )


def norm_bound(vector: Direction) -> Fraction:
    """Return a simple rational c ≥ ‖v‖: exact where ‖v‖ is whole, else within 1/1024."""
    square = sum(v * v for v in vector)
    if square == 0:
        return Fraction(1)
    root = isqrt(square)
    if root * root == square:
        return Fraction(root)
    return Fraction(isqrt(square * _NORM_DENOMINATOR**2) + 1, _NORM_DENOMINATOR)
