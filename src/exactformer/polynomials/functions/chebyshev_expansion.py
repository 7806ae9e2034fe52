"""Chebyshev expansions on the cube, by interpolation on a grid.

    f(u) ≈ Σ_α a_α T_α1(u_1) … T_αd(u_d),        u_j = cos(πk/m), k = 0, …, m on every axis.

The coefficients are a cosine transform of the values. Cut at total degree |α| ≤ q, the expansion errs
by no more than the sum of what is left out, apart from what the grid itself does not see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray
from scipy.fft import dctn

from exactformer.core.arrays import Array
from exactformer.polynomials.functions.sampled import BoxFunction

_ROWS = 4096
_NOISE = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Expansion:
    """Exponents (K, d), in ascending total degree, and coefficients (K, m)."""

    exponents: NDArray[np.int64]
    coefficients: Array
    points: int
    """How often f was evaluated."""

    @property
    def degree(self) -> int:
        """The highest total degree present."""
        return int(self.exponents.sum(axis=1).max(initial=0))

    def cut(self, degree: int) -> Expansion:
        """Return the terms up to a total degree."""
        kept = self.exponents.sum(axis=1) <= degree
        return Expansion(self.exponents[kept], self.coefficients[kept], self.points)

    def tails(self) -> Array:
        """Return for q = 0, 1, … the sum of absolute coefficients above total degree q.

        Coefficients of the size of rounding errors say nothing and count as zero.
        """
        sizes = np.abs(self.coefficients).max(axis=1)
        sizes = np.where(sizes > _NOISE * sizes.max(initial=0.0), sizes, 0.0)
        by_degree = np.bincount(self.exponents.sum(axis=1), weights=sizes)
        return np.append(by_degree[::-1].cumsum()[::-1][1:], 0.0)

    def __call__(self, u: Array) -> Array:
        """Evaluate at local points: (N, d) gives (N, m)."""
        pieces = [self._rows(u[start : start + _ROWS]) for start in range(0, len(u), _ROWS)]
        return np.concatenate(pieces) if pieces else np.zeros((0, self.coefficients.shape[1]))

    def _rows(self, u: Array) -> Array:
        product = np.ones((len(u), len(self.exponents)))
        for axis in range(u.shape[1]):
            column = self.exponents[:, axis]
            product *= chebvander(u[:, axis], int(column.max(initial=0)))[:, column]
        return np.asarray(product @ self.coefficients)


def expand(f: BoxFunction, m: int) -> Expansion:
    """Interpolate on the grid of (m + 1)^d points."""
    d = f.dimension
    nodes = np.cos(np.pi * np.arange(m + 1) / m)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    values = f(grid).reshape(*[m + 1] * d, f.outputs)
    axes = tuple(range(d))
    coefficients = dctn(values, type=1, axes=axes) / m**d
    for axis in axes:
        for end in (0, m):
            index: list[slice | int] = [slice(None)] * (d + 1)
            index[axis] = end
            coefficients[tuple(index)] /= 2
    exponents = np.stack(np.meshgrid(*[np.arange(m + 1)] * d, indexing="ij"), axis=-1)
    exponents = exponents.reshape(-1, d)
    order = np.argsort(exponents.sum(axis=1), kind="stable")
    return Expansion(exponents[order], coefficients.reshape(-1, f.outputs)[order], len(grid))
