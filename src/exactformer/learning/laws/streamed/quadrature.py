"""Gauss quadratures of columns: few places and weights with the same sums of powers as all rows.

The rule of n places that belongs to the recurrence of a column's own orthonormal polynomials has the
sums of all its powers up to 2n − 1, and so the same recurrence up to degree n − 1. The rules of two
sets of rows together are the rule of all these rows, and are made short again the same way. So one
pass finds the recurrences of every degree below n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dictionary.columns import (
    VANISHES,
    Array,
    Columns,
    centre_and_scale,
)

# So many rows for each place are worth a rule; fewer are kept as they are.
_WORTH = 8


@dataclass(frozen=True)
class Quadrature:
    """Places and weights of d columns, both (n, d); weights add up to the number of rows."""

    places: Array
    weights: Array

    @classmethod
    def of(cls, X: Array, size: int) -> Quadrature:
        """Return a rule of ``size`` places for each column of ``X`` (N, d)."""
        return cls(X, np.broadcast_to(1.0, X.shape)).shortened(size)

    def joined(self, other: Quadrature, size: int) -> Quadrature:
        """Return the rule of both sets of rows."""
        pairs = (self.places, other.places), (self.weights, other.weights)
        return Quadrature(*map(np.concatenate, pairs)).shortened(size)

    def shortened(self, size: int) -> Quadrature:
        """Return a rule of ``size`` places with the same sums, if that is a good deal shorter."""
        if len(self.places) < _WORTH * size:
            return self
        total = self.weights.sum(axis=0)
        centre = (self.weights * self.places).sum(axis=0) / total
        away = (self.places - centre).T
        scale = np.sqrt((self.weights.T * away**2).sum(axis=1) / total)
        scale = np.where(scale > 0, scale, 1.0)
        u = away / scale[:, None]
        # The Jacobi matrix, by Stieltjes' procedure; roots of the weights stand in for p_0 = 1.
        matrix = np.zeros((len(scale), size, size))
        current, previous = np.sqrt(self.weights.T / total[:, None]), np.zeros_like(u)
        for k in range(size):
            following = u * current
            matrix[:, k, k] = own = np.einsum("dn,dn->d", following, current)
            if k == size - 1:
                break
            following -= own[:, None] * current
            if k:
                following -= matrix[:, k, k - 1][:, None] * previous
            norm = np.sqrt(np.einsum("dn,dn->d", following, following))
            alive = norm > VANISHES
            matrix[:, k, k + 1] = matrix[:, k + 1, k] = np.where(alive, norm, 0.0)
            following *= np.divide(1.0, norm, out=np.zeros_like(norm), where=alive)[:, None]
            previous, current = current, following
        # Sizes that overflow are refused by name, once the range of each column is known.
        nodes, vectors = np.linalg.eigh(np.nan_to_num(matrix))
        places = centre + scale * nodes.T
        return Quadrature(places, total * np.square(vectors[:, 0]).T)

    def at(self, columns: NDArray[np.int64]) -> Quadrature:
        """Return the rules of some columns."""
        return Quadrature(self.places[:, columns], self.weights[:, columns])

    def recurrences(
        self,
        mean: Array,
        spread: Array,
        distinct: NDArray[np.int64],
        degree: int,
        known: Columns | None,
    ) -> Columns:
        """Return the recurrences of the columns up to a degree below the number of places.

        Those ``known`` up to a lower degree are continued.
        """
        center, scale = centre_and_scale(mean, spread)
        u = ((self.places - center) / scale).T
        share = self.weights.T / self.weights.sum(axis=0)[:, None]
        d = len(mean)
        a, s, g = np.zeros((degree, d)), np.zeros((degree + 1, d)), np.zeros((degree + 1, d))
        top, start = np.full(d, degree), 0
        if known is not None:
            start = len(known.a)
            a[:start], s[: start + 1], g[: start + 1] = known.a, known.s, known.g
            top[known.degree < start] = known.degree[known.degree < start]
        for k in range(start, degree):
            values = Columns(center, scale, top, a, s, g).up_to(k).evaluate(self.places)
            a[k] = (share * u * values[k] ** 2).sum(axis=1)
            following = (u - a[k][:, None]) * values[k]
            if k:
                following -= s[k][:, None] * values[k - 1]
            norm = np.sqrt((share * following**2).sum(axis=1))
            alive = (norm > VANISHES) & (k + 1 < distinct) & (top == degree)
            top[~alive & (top == degree)] = k
            s[k + 1] = np.where(alive, norm, 0.0)
            g[k + 1] = np.divide(1.0, norm, out=np.zeros(d), where=alive)
        return Columns(center, scale, top, a, s, g)
