"""The spectrum of one attention module, and what each of its heads is said to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.theory.decay import Decay, fit_decay

Array = NDArray[np.float64]
_ENOUGH = 4
"""Tokens in all, for each dimension of a head, that a verdict takes."""
_ROOM = 0.8
"""Dimensions of a head for each token of the longest input at which a lesser rank is the head's own:
a square matrix has small singular values by chance."""
_SQUARED = 1e-7
"""What pooled values are known to, relative to the first: squares are summed in float64."""


@dataclass(frozen=True)
class LayerSpectrum:
    """Singular values of the products of queries and keys, over inputs, for every head of a module."""

    name: str
    kind: str
    """``self`` or ``cross``."""
    kv_heads: int
    inputs: int
    tokens: float
    """Tokens an input has, on average: the lesser of queries and keys."""
    fewest_tokens: int
    most_tokens: int
    mean: Array
    """(heads, m): the mean of the k-th singular value."""
    spread: Array
    """(heads, m): its standard deviation over inputs."""
    rank: NDArray[np.int64]
    """(heads,): the largest numerical rank of an input."""
    effective_rank: Array
    effective_spread: Array
    energy: Array
    """(heads, m): the share of the energy in the first k values, averaged over inputs."""
    resolution: Array
    """(heads,): what a value must exceed to be told from zero, on average."""
    pooled: Array
    """(heads, m): singular values of all queries against all keys."""
    query_moments: Array
    """(heads, m, m): Σ q qᵀ over all tokens."""
    key_moments: Array
    """(kv_heads, m, m): Σ k kᵀ."""
    samples: NDArray[np.float32]
    """(n, heads, m): spectra of some inputs."""

    @property
    def heads(self) -> int:
        """Query heads."""
        return int(self.mean.shape[0])

    @property
    def head_dim(self) -> int:
        """The m of queries and keys."""
        return int(self.mean.shape[1])

    @property
    def fitted(self) -> str:
        """What the decay is fitted to: ``mean`` values, or ``pooled`` ones.

        An input of fewer than m tokens has fewer than m values, and a mean that falls where inputs
        end says nothing of the head.
        """
        return "mean" if self.fewest_tokens >= self.head_dim else "pooled"

    def decay(self, head: int) -> Decay:
        """Return the law that the singular values of a head follow."""
        if self.fitted == "mean":
            return fit_decay(self.mean[head], error=float(self.resolution[head]))
        values = self.pooled[head]
        return fit_decay(values, error=_SQUARED * float(values[0]))

    def needed(self, head: int, share: float) -> int:
        """Return the head dimension that keeps a share of the energy, each input with its own basis."""
        return _first(self.energy[head], share)

    def shared(self, head: int, share: float) -> int:
        """Return the head dimension that keeps a share of the energy with one basis for all inputs."""
        squares = self.pooled[head] ** 2
        total = squares.sum()
        return _first(squares.cumsum() / total, share) if total else 0

    def lost(self, head: int, rank: int) -> float:
        """Return the share of the energy that goes with all but so many leading directions."""
        squares = self.pooled[head] ** 2
        total = float(squares.sum())
        return float(squares[rank:].sum()) / total if total else 0.0

    def by_value(self, head: int) -> list[dict[str, Any]]:
        """Return a line for each k: mean and spread of σ_k over inputs, shares, and pooled."""
        names = ("mean", "spread", "energy", "pooled")
        columns = {name: getattr(self, name)[head] for name in names}
        return [
            {"k": k + 1, **{name: column[k] for name, column in columns.items()}}
            for k in range(self.head_dim)
        ]

    def verdict(self, head: int) -> str:
        """Say in a few words how much of its dimension a head uses."""
        m = self.head_dim
        if self.rank[head] < m <= _ROOM * self.most_tokens:
            return f"rank {self.rank[head]} of {m}"
        if self.tokens * self.inputs < _ENOUGH * m:
            return "too few tokens"
        kept = self.shared(head, 0.999)
        if kept <= m // 4:
            return "low rank"
        return "half would do" if kept <= m // 2 else "uses its head"

    def row(self, head: int) -> dict[str, Any]:
        """Return the line of the table for a head."""
        decay = self.decay(head)
        power = decay.power
        low, high = (np.nan, np.nan) if power is None else power.interval
        return {
            "key_head": head // (self.heads // self.kv_heads),
            "kind": self.kind,
            "head_dim": self.head_dim,
            "inputs": self.inputs,
            "tokens": self.tokens,
            "sigma_1": self.mean[head, 0],
            "sigma_1_spread": self.spread[head, 0],
            "sigma_mean": self.mean[head].mean(),
            "sigma_spread": self.spread[head].mean(),
            "rank": int(self.rank[head]),
            "effective_rank": self.effective_rank[head],
            "effective_rank_spread": self.effective_spread[head],
            "alpha": decay.alpha,
            "alpha_low": low,
            "alpha_high": high,
            "fit": np.nan if power is None else power.explained,
            "decay": decay.shape,
            "fitted": self.fitted,
            "dim_99": self.needed(head, 0.99),
            "dim_999": self.needed(head, 0.999),
            "shared_99": self.shared(head, 0.99),
            "shared_999": self.shared(head, 0.999),
            "verdict": self.verdict(head),
        }


def _first(shares: Array, share: float) -> int:
    """Return how many terms it takes to reach a share, forgiving rounding."""
    return int(np.argmax(shares >= share * (1 - 1e-12))) + 1
