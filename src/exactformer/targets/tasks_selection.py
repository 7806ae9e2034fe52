"""Average by selection (Jiang & Li 2023, equations 63–66; after the task qSA of Sanford et al.).

A token is x(t) = (v_t, s(t)): a vector and k indices of tokens, counted from 0 as in equation (66).
The answer is the mean of the vectors it names,

    y(t) = (1/k) Σ_{s ∈ s(t)} v_s,        A_ts = (how often s is in s(t)) / k ∈ {0, 1/k, …, 1},

with f(v, s) = v and F = id. Equation (64) calls these weights ρ; they are σ[ρ], with ρ the logarithm of
the counts and −∞ where s is not named.

A key must know its own place, so `encode` adds it as a unit vector. Indices are names, not amounts:
they become unit vectors too, unless ``unit_indices`` is false and they stay the k numbers of the text's
x ∈ R^((d + k) × τ). The scores are polynomials in the key's place s whose coefficients are the query's
business: with S the set of indices named,

    p_t(s) = q(s) − λ Π_{j ∈ S} (s − j)²,        q = the interpolant of log(counts) on S.

On S they are log(counts), at any other integer at most q(s) − λ. The degree is 2k and the constant
drops out of the softmax: rank 2k, whatever τ; for τ ≤ 2k the τ − 1 that any scores have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from exactformer.errors import InputError
from exactformer.targets.tasks import Array

EQUATION_66 = (
    (4, 5, 5), (4, 4, 4), (1, 1, 7), (5, 5, 5), (0, 3, 7), (0, 6, 7), (2, 2, 2), (2, 3, 4),
)  # fmt: skip
"""The indices s(t) of the input drawn in figure 6."""


@dataclass(frozen=True)
class AverageBySelection:
    """τ vectors in the unit cube, each with k indices; x is (..., τ, dim + k)."""

    tau: int = 8
    dim: int = 2
    k: int = 3
    unit_indices: bool = True

    def __post_init__(self) -> None:
        if min(self.tau, self.dim, self.k) < 1:
            raise InputError(f"tau={self.tau}, dim={self.dim}, k={self.k}: none may be below 1")

    @property
    def token_dim(self) -> int:
        """A token is its vector, its indices, and the unit vector of its place."""
        return self.dim + self.k * (self.tau if self.unit_indices else 1) + self.tau

    @property
    def output_dim(self) -> int:
        """An answer is a vector."""
        return self.dim

    @property
    def rank(self) -> int:
        """Polynomials of degree 2k in the place, less their constants."""
        return min(2 * self.k, self.tau - 1)

    def sample(self, count: int, seed: int, indices: Any = None) -> Array:
        """Draw vectors uniformly from the unit cube, and indices unless they are given (τ, k)."""
        generator = np.random.default_rng(seed)
        vectors = generator.random((count, self.tau, self.dim))
        if indices is None:
            indices = generator.integers(self.tau, size=(count, self.tau, self.k))
        named = np.broadcast_to(np.asarray(indices, dtype=float), (count, self.tau, self.k))
        return np.concatenate([vectors, named], axis=-1)

    def __call__(self, x: Any) -> Array:
        """Return the mean of the vectors named by each token."""
        vectors, named = self.split(x)
        taken = np.take_along_axis(vectors[..., None, :, :], named[..., None], axis=-2)
        return np.asarray(taken.mean(axis=-2))

    def encode(self, x: Any) -> Array:
        """Return tokens that know their place; indices are unit vectors, or scaled to [0, 1]."""
        vectors, named = self.split(x)
        units = np.eye(self.tau)
        place = np.broadcast_to(units, (*vectors.shape[:-2], self.tau, self.tau))
        scaled = named / max(self.tau - 1, 1)
        code = units[named].reshape(*named.shape[:-1], -1) if self.unit_indices else scaled
        return np.concatenate([vectors, code, place], axis=-1)

    def attention(self, x: Any) -> Array:
        """Return how often s is among the indices of t, over k."""
        named = self.split(x)[1]
        return np.asarray((named[..., None] == np.arange(self.tau)).mean(axis=-2))

    def values(self, x: Any) -> Array:
        """Return f(v, s) = v."""
        return self.split(x)[0]

    def readout(self, h: Array) -> Array:
        """Return F(h) = h."""
        return h

    def scores(self, x: Any, sharpness: float) -> Array:
        """Return the polynomials p_t at every place; λ is the ``sharpness``."""
        named = np.sort(self.split(x)[1], axis=-1)
        sets, which = np.unique(named.reshape(-1, self.k), axis=0, return_inverse=True)
        table = np.stack([_polynomial(tuple(row), self.tau, sharpness) for row in sets.tolist()])
        return np.asarray(table[which.reshape(-1)].reshape(*named.shape[:-1], self.tau))

    def split(self, x: Any) -> tuple[Array, Any]:
        """Return the vectors and the indices, these as integers."""
        x = np.asarray(x, dtype=np.float64)
        if x.shape[-2:] != (self.tau, self.dim + self.k):
            raise InputError(
                f"inputs are (..., {self.tau}, {self.dim + self.k}), a vector and {self.k} indices "
                f"for each token, not {x.shape}"
            )
        named = x[..., self.dim :].astype(int)
        if (named != x[..., self.dim :]).any() or named.min() < 0 or named.max() >= self.tau:
            raise InputError(f"indices are integers from 0 to {self.tau - 1}")
        return x[..., : self.dim], named


@lru_cache(maxsize=4096)
def _polynomial(named: tuple[int, ...], tau: int, sharpness: float) -> Array:
    """Return q(s) − λ Π (s − j)² for s = 0, …, τ − 1, by Lagrange's formula."""
    nodes, counts = np.unique(named, return_counts=True)
    away = np.arange(tau)[:, None] - nodes
    q = np.zeros(tau)
    for j, node in enumerate(nodes):
        others = np.arange(len(nodes)) != j
        q += np.log(counts[j]) * np.prod(away[:, others] / (node - nodes[others]), axis=1)
    return np.asarray(q - sharpness * np.prod(away.astype(float) ** 2, axis=1))
