"""Orthonormal polynomials of one column, for the column's own sample.

For a sample x_1 … x_N with weights w the polynomials p_0, p_1, … with

    Σ_i w_i p_j(x_i) p_k(x_i) / Σ_i w_i = δ_jk,     deg p_k = k

obey a three-term recurrence, found here by Stieltjes' procedure in u = (x − centre)/scale:

    p_{k+1}(u) = ((u − a_k) p_k(u) − s_k p_{k−1}(u)) · g_{k+1},     g_k = 1/s_k

They exist up to one less than the number of distinct values: on a column of zeros and ones x² is x,
and on a constant column nothing but the constant is left. Every constant of the recurrence is a
float, hence an exact rational, so the change of basis to powers of x can be done without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Below this the next polynomial is a multiple of rounding noise: the distinct values are used up.
VANISHES = 1e-7


@dataclass(frozen=True)
class Columns:
    """The recurrences of all d columns up to degree q.

    ``center``, ``scale`` and ``degree`` have shape (d,), ``a`` (q, d), ``s`` and ``g`` (q + 1, d).
    """

    center: Array
    scale: Array
    degree: NDArray[np.int64]
    a: Array
    s: Array
    g: Array

    @property
    def count(self) -> int:
        """The number d of columns."""
        return len(self.center)

    def up_to(self, degree: int) -> Columns:
        """Return the recurrences up to a lower degree."""
        top = np.minimum(self.degree, degree)
        kept = self.a[:degree], self.s[: degree + 1], self.g[: degree + 1]
        return Columns(self.center, self.scale, top, *kept)

    def some(self, places: NDArray[np.int64], degree: int) -> Columns:
        """Return the recurrences of some columns up to a lower degree."""
        low = self.up_to(degree)
        own = low.center[places], low.scale[places], low.degree[places]
        return Columns(*own, low.a[:, places], low.s[:, places], low.g[:, places])

    def evaluate(self, X: Array) -> Array:
        """Return p_k(x_ij) as an array (q + 1, d, N); zero beyond a column's own degree."""
        u = np.ascontiguousarray(((X - self.center) / self.scale).T)
        values = np.empty((len(self.a) + 1, *u.shape))
        values[0] = 1.0
        for k in range(len(self.a)):
            np.subtract(u, self.a[k][:, None], out=values[k + 1])
            values[k + 1] *= values[k]
            if k:
                values[k + 1] -= self.s[k][:, None] * values[k - 1]
            values[k + 1] *= self.g[k + 1][:, None]
        return values

    def powers(self, column: int, top: int, number: type[Any] = float) -> NDArray[Any]:
        """Return C with p_k(x) = Σ_i C[k, i] x^i for k ≤ top, in any exact or floating type."""
        table = np.full((top + 1, top + 1), number(0), dtype=object)
        table[0, 0] = number(1)
        center, scale = number(float(self.center[column])), number(float(self.scale[column]))
        for k in range(top):
            a, s = number(float(self.a[k, column])), number(float(self.s[k, column]))
            row = -(center / scale + a) * table[k]
            row[1:] = row[1:] + table[k][:-1] / scale
            if k:
                row = row - s * table[k - 1]
            table[k + 1] = row * number(float(self.g[k + 1, column]))
        return table if number is not float else table.astype(np.float64)

    def expansions(self, column: int, top: int, number: type[Any] = float) -> NDArray[Any]:
        """Return D with x^k = Σ_i D[k, i] p_i(x): the first row of powers of the Jacobi matrix."""
        table = np.full((top + 1, top + 1), number(0), dtype=object)
        table[0, 0] = number(1)
        center, scale = number(float(self.center[column])), number(float(self.scale[column]))
        a = [number(float(v)) for v in self.a[:top, column]] + [number(0)]
        s = [number(float(v)) for v in self.s[: top + 1, column]]
        g = [number(float(v)) for v in self.g[: top + 1, column]]
        for k in range(top):
            for i in range(k + 1):
                # u p_i = p_{i+1}/g_{i+1} + a_i p_i + s_i p_{i−1}
                here = table[k, i]
                table[k + 1, i] += (center + scale * a[i]) * here
                table[k + 1, i + 1] += scale / g[i + 1] * here
                if i:
                    table[k + 1, i - 1] += scale * s[i] * here
        return table if number is not float else table.astype(np.float64)


def fit_columns(X: Array, weight: Array, degree: int, values: Array | None = None) -> Columns:
    """Find the recurrences of every column of ``X`` (N, d) up to ``degree``, by Stieltjes.

    An array ``values`` (q + 1, d, N) is filled with what :meth:`Columns.evaluate` returns at ``X``.
    """
    share = weight / weight.sum()
    mean = share @ X
    center, scale = centre_and_scale(mean, np.sqrt(share @ (X - mean) ** 2))
    u = np.ascontiguousarray(((X - center) / scale).T)
    d = X.shape[1]
    a, s = np.zeros((degree, d)), np.zeros((degree + 1, d))
    g = np.zeros((degree + 1, d))
    top = np.full(d, degree)
    distinct = _distinct(X, degree + 1)
    current = np.ones_like(u)
    previous = current
    if values is not None:
        values[0] = current
    for k in range(degree):
        a[k] = (current * current * u) @ share
        following = np.subtract(u, a[k][:, None], out=None if values is None else values[k + 1])
        following *= current
        if k:
            following -= s[k][:, None] * previous
        norm = np.sqrt((following * following) @ share)
        alive = (norm > VANISHES) & (k + 1 < distinct) & (top == degree)
        top[~alive & (top == degree)] = k
        s[k + 1] = np.where(alive, norm, 0.0)
        g[k + 1] = np.divide(1.0, norm, out=np.zeros(d), where=alive)
        following *= g[k + 1][:, None]
        previous, current = current, following
    return Columns(center, scale, top, a, s, g)


def power_columns(count: int, degree: int) -> Columns:
    """Return the recurrence of plain powers, p_{k+1} = u p_k, for ``count`` columns."""
    zero, one = np.zeros(count), np.ones(count)
    table = np.ones((degree + 1, count))
    return Columns(zero, one, np.full(count, degree), 0 * table[1:], 0 * table, table)


def centre_and_scale(mean: Array, spread: Array) -> tuple[Array, Array]:
    """Return a centre and a scale per column: the scale a power of two, the centre short in it.

    Short dyadic numbers keep the exact change of basis small and x − centre free of rounding.
    """
    spread = np.where(spread > 0, spread, 1.0)
    scale = np.exp2(np.round(np.log2(spread)))
    return np.round(mean / scale * 16) / 16 * scale, scale


def _distinct(X: Array, most: int) -> NDArray[np.int64]:
    """Return how many distinct values each column has, counting no further than ``most``."""
    head = np.sort(X[: 4 * most], axis=0)
    counts = 1 + np.count_nonzero(head[1:] != head[:-1], axis=0)
    for j in np.flatnonzero(counts < most):
        counts[j] = len(np.unique(X[:, j]))
    return np.asarray(np.minimum(counts, most))
