"""Nearest point to a set (Jiang & Li 2023, equations 54–56).

A token is a pair x(t) = (u_t, v_t) of points; the answer is the v nearest to u_t,

    y(t) = arg min_{v ∈ V} |u_t − v| = Σ_s σ_H[−|u_t − v_·|](s) v_s,        σ_H the hard-max,

so f(u, v) = v, F = id. The text calls F ∘ f the identity and writes ρ(u, v) = |u − v|; it is the
projection to v, and without the minus the *farthest* point is taken.

The hard-max jumps where two points are as near, so no softmax comes close everywhere. The scores

    −λ |u − v|² = 2λ u·v − λ|v|² − λ|u|²

have rank d + 2, of which a softmax sees d + 1: the last term is constant along a row. A point that
is farther by the gap g in squared distance keeps e^(−λg) of the weight of the nearest; gaps below
1/λ come with a probability of order 1/λ, hence a mean squared error of that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from exactformer.errors import InputError
from exactformer.targets.tasks import Array


@dataclass(frozen=True)
class NearestPoint:
    """τ points u and τ points v in the unit cube of ``dim`` dimensions; x is (..., τ, 2·dim)."""

    tau: int = 6
    dim: int = 2

    def __post_init__(self) -> None:
        if self.tau < 1 or self.dim < 1:
            raise InputError(f"tau={self.tau}, dim={self.dim}: both must be at least 1")

    @property
    def token_dim(self) -> int:
        """A token is (u, v)."""
        return 2 * self.dim

    @property
    def output_dim(self) -> int:
        """An answer is a point."""
        return self.dim

    @property
    def rank(self) -> int:
        """Queries (2λu, −λ), keys (v, |v|²)."""
        return self.dim + 1

    def sample(self, count: int, seed: int) -> Array:
        """Draw points uniformly from the unit cube."""
        return np.random.default_rng(seed).random((count, self.tau, 2 * self.dim))

    def __call__(self, x: Any) -> Array:
        """Return the nearest v for every u; of several the first."""
        u, v = self.split(x)
        nearest = np.linalg.norm(u[..., :, None, :] - v[..., None, :, :], axis=-1).argmin(axis=-1)
        return np.take_along_axis(v, nearest[..., None], axis=-2)

    def encode(self, x: Any) -> Array:
        """Return x: sets have no order, and the task is equivariant."""
        return np.asarray(x, dtype=np.float64)

    def attention(self, x: Any) -> Array:
        """Return the hard-max of −|u_t − v_s|."""
        return np.asarray(np.eye(self.tau)[self.scores(x, 1.0).argmax(axis=-1)])

    def values(self, x: Any) -> Array:
        """Return f(u, v) = v."""
        return self.split(x)[1]

    def readout(self, h: Array) -> Array:
        """Return F(h) = h."""
        return h

    def scores(self, x: Any, sharpness: float) -> Array:
        """Return −λ|u_t − v_s|², λ the ``sharpness``."""
        u, v = self.split(x)
        return np.asarray(-sharpness * ((u[..., :, None, :] - v[..., None, :, :]) ** 2).sum(-1))

    def split(self, x: Any) -> tuple[Array, Array]:
        """Return U and V, each (..., τ, dim)."""
        x = np.asarray(x, dtype=np.float64)
        if x.shape[-2:] != (self.tau, 2 * self.dim):
            raise InputError(
                f"inputs are (..., {self.tau}, {2 * self.dim}), a pair (u, v) for each token, "
                f"not {x.shape}"
            )
        return x[..., : self.dim], x[..., self.dim :]
