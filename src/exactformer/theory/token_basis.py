"""Functions of one token, orthonormal over the tokens at hand: 1, linear, quadratic, then waves.

In such a basis b_0 = 1, b_1, …, b_{J−1} a score ρ(u, v) = Σ M_ij b_i(u) b_j(v) has the singular values
of the matrix M: this is its proper orthogonal decomposition under the tokens' own distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WAVES = 64
_SCALES = (0.7, 1.5, 3.0)
"""Frequencies of the waves, for tokens of unit spread."""
_MOST_TOKENS = 20_000
_MOST_FUNCTIONS = 24
_FAR = 3.0
"""Tokens further out, in standard deviations, are taken for this far: squares must not run away."""
_LEAST_PART = 1e-2
"""A direction that adds less than this to the functions before it is left out."""


@dataclass(frozen=True)
class TokenBasis:
    """b(u) = φ(u) R with φ = (1, u, u_i u_j, waves) of centred and scaled tokens."""

    centre: Array
    scale: Array
    frequencies: Array
    phases: Array
    combination: Array

    @classmethod
    def of(cls, inputs: Array, seed: int) -> TokenBasis:
        """Return a basis for tokens (N, τ, d): 12 + 2d functions, at most 24."""
        rng = np.random.default_rng(seed)
        tokens = inputs.reshape(-1, inputs.shape[-1])
        if len(tokens) > _MOST_TOKENS:
            tokens = tokens[rng.choice(len(tokens), _MOST_TOKENS, replace=False)]
        d = tokens.shape[1]
        spread = tokens.std(axis=0)
        raw = cls(
            centre=tokens.mean(axis=0),
            scale=np.where(spread > 0, spread, 1.0),
            frequencies=rng.normal(size=(d, _WAVES)) * rng.choice(_SCALES, _WAVES) / np.sqrt(d),
            phases=rng.uniform(0, 2 * np.pi, _WAVES),
            combination=np.eye(0),
        )
        values = raw._values(tokens)
        size = min(12 + 2 * d, _MOST_FUNCTIONS)
        ends = np.cumsum([1, d, values.shape[1] - 1 - d - _WAVES, _WAVES])
        return replace(raw, combination=_orthonormal(values, ends, size))

    @property
    def size(self) -> int:
        """The number J of functions."""
        return int(self.combination.shape[1])

    def __call__(self, inputs: Array) -> Array:
        """Return (..., J) for tokens (..., d)."""
        flat = inputs.reshape(-1, inputs.shape[-1])
        values = self._values(flat) @ self.combination
        return np.asarray(values.reshape(*inputs.shape[:-1], -1))

    def _values(self, tokens: Array) -> Array:
        u = np.clip((tokens - self.centre) / self.scale, -_FAR, _FAR)
        i, j = np.triu_indices(u.shape[1])
        waves = np.cos(u @ self.frequencies + self.phases)
        return np.concatenate([np.ones((len(u), 1)), u, u[:, i] * u[:, j], waves], axis=1)


def _orthonormal(values: Array, ends: Array, size: int) -> Array:
    """Orthonormalise block after block, each by its strongest directions, up to ``size`` in all."""
    count, columns = values.shape
    found = np.zeros((columns, 0))
    start = 0
    for end in ends:
        block = np.eye(columns)[:, start:end]
        start = end
        for _ in range(2):  # twice is enough for orthogonality to rounding
            block = block - found @ ((values @ found).T @ (values @ block) / count)
        _, part, directions = np.linalg.svd(values @ block / np.sqrt(count), full_matrices=False)
        kept = min(size - found.shape[1], int((part > _LEAST_PART).sum()))
        found = np.hstack([found, block @ directions[:kept].T / part[:kept]])
    return found
