"""Statistics of spectra over inputs, one input after the other, in memory that does not grow.

For every head: mean and variance of each singular value (Welford's way), the largest rank, mean and
variance of the effective rank exp(−Σ p_k log p_k) with p_k = σ_k/Σσ, and the mean share of the energy
Σσ² that the first k values have. A fixed number of spectra, drawn evenly from all that came, is kept
for drawing.

*Pooled* are the values of all queries against all keys, of whichever input: what one projection for
all inputs has to serve. Their squares are the eigenvalues of (Σ QᵀQ)(Σ KᵀK), two m × m sums, which
are kept: they hold the leading directions, too (:mod:`.truncation`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.errors import InputError
from exactformer.spectra.layers import LayerSpectrum
from exactformer.spectra.scores import Scores
from exactformer.spectra.singular import pooled_values, present, singular_values

Array = NDArray[np.float64]


class LayerStatistics:
    """The statistics of one attention module."""

    def __init__(self, scores: Scores, samples: int, seed: int, centred: bool) -> None:
        heads, m = scores.heads, scores.head_dim
        self._name, self._kind, self._centred = scores.name, scores.kind, centred
        self._kv_heads = scores.kv_heads
        self._inputs, self._tokens = 0, 0
        self._fewest, self._most = 2**62, 0
        self._mean, self._square = np.zeros((heads, m)), np.zeros((heads, m))
        self._ranks = np.zeros(heads, dtype=np.int64)
        self._effective, self._effective_square = np.zeros(heads), np.zeros(heads)
        self._energy, self._resolution = np.zeros((heads, m)), np.zeros(heads)
        self._query_moment = torch.zeros(heads, m, m, dtype=torch.float64)
        self._key_moment = torch.zeros(scores.kv_heads, m, m, dtype=torch.float64)
        self._kept: list[Array] = []
        self._samples, self._random = samples, np.random.default_rng(seed)

    def add(self, scores: Scores) -> None:
        """Add the inputs of a batch; those without a token say nothing."""
        shape = (scores.heads, scores.head_dim)
        if shape != self._mean.shape or scores.kv_heads != self._kv_heads:
            raise InputError(
                f"module {self._name!r} has {shape[0]} heads of size {shape[1]} on one batch and "
                f"{self._mean.shape} on another"
            )
        for index in range(len(scores.queries)):
            queries, keys = present(scores, index, self._centred)
            if queries.shape[1] and keys.shape[1]:
                self._add(queries, keys)

    def _add(self, queries: Tensor, keys: Tensor) -> None:
        found = singular_values(queries, keys)
        values, self._inputs = found.values.numpy(), self._inputs + 1
        self._tokens += found.tokens
        self._fewest, self._most = min(self._fewest, found.tokens), max(self._most, found.tokens)
        away = values - self._mean
        self._mean += away / self._inputs
        self._square += away * (values - self._mean)
        self._ranks = np.maximum(self._ranks, found.ranks.numpy())
        effective = effective_rank(values)
        change = effective - self._effective
        self._effective += change / self._inputs
        self._effective_square += change * (effective - self._effective)
        self._energy += (energy_shares(values) - self._energy) / self._inputs
        self._resolution += (found.resolution.numpy() - self._resolution) / self._inputs
        self._query_moment += found.left.mT @ found.left
        self._key_moment += found.right.mT @ found.right
        self._keep(values)

    def _keep(self, values: Array) -> None:
        """Keep each spectrum so far with the same chance."""
        if len(self._kept) < self._samples:
            self._kept.append(values)
        elif (place := int(self._random.integers(self._inputs))) < self._samples:
            self._kept[place] = values

    def result(self) -> LayerSpectrum:
        """Return what has been gathered."""
        if not self._inputs:
            raise InputError(f"module {self._name!r} saw no token: everything was padding")
        freedom = max(self._inputs - 1, 1)
        return LayerSpectrum(
            name=self._name,
            kind=self._kind,
            kv_heads=self._kv_heads,
            inputs=self._inputs,
            tokens=self._tokens / self._inputs,
            fewest_tokens=self._fewest,
            most_tokens=self._most,
            mean=self._mean,
            spread=np.sqrt(self._square / freedom),
            rank=self._ranks,
            effective_rank=self._effective,
            effective_spread=np.sqrt(self._effective_square / freedom),
            energy=self._energy,
            resolution=self._resolution,
            samples=np.stack(self._kept).astype(np.float32),
            pooled=pooled_values(self._query_moment, self._key_moment),
            query_moments=self._query_moment.numpy(),
            key_moments=self._key_moment.numpy(),
        )


def effective_rank(values: Array) -> Array:
    """Return exp of the entropy of σ/Σσ along the last axis; 0 where all values are zero."""
    total = values.sum(axis=-1, keepdims=True)
    p = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    rank: Array = np.where(total[..., 0] > 0, np.exp(entropy), 0.0)
    return rank


def energy_shares(values: Array) -> Array:
    """Return the share of Σσ² in the first k values, k = 1 … m; 1 where all values are zero."""
    squares = values**2
    total = squares.sum(axis=-1, keepdims=True)
    shares = np.ones_like(values)
    np.divide(squares.cumsum(axis=-1), total, out=shares, where=total > 0)
    return shares
