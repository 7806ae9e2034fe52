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
    """(heads, m): singular values of all queries against all keys; of rotary heads before rotation, an
    estimate."""
    samples: NDArray[np.float32]
    """(n, heads, m): spectra of some inputs."""
    positions: str = ""
    """``rotary``, or why what acts between projections and scores is not read; empty where nothing
    does."""
    shared_keys: Array | None = None
    """(kv_heads, m): as ``pooled``, of all heads that share keys against these; rotary heads only, as
    all that follows."""
    frequencies: Array | None = None
    """(planes,): radians from one token to the next; 0 in planes that do not turn."""
    query_planes: Array | None = None
    """(heads, planes): mean square of queries in each plane."""
    key_planes: Array | None = None
    """(kv_heads, planes): the same of keys."""
    distances: Array | None = None
    """(heads, buckets, 4): pairs looked at, their summed scores, squared scores and attention, at
    distances 0, 1, 2 to 3, 4 to 7 …"""

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

    def keys_kept(self, share: float) -> int:
        """Return the numbers a token's keys need before rotation to keep a share of the energy."""
        if self.shared_keys is None:
            return self.kv_heads * self.head_dim
        squares = self.shared_keys**2
        totals = np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return sum(_first(one, share) for one in squares.cumsum(axis=1) / totals)

    def by_value(self, head: int) -> list[dict[str, Any]]:
        """Return a line for each k: mean and spread of σ_k over inputs, shares, and pooled."""
        names = ("mean", "spread", "energy", "pooled")
        columns = {name: getattr(self, name)[head] for name in names}
        return [
            {"k": k + 1, **{name: column[k] for name, column in columns.items()}}
            for k in range(self.head_dim)
        ]

    def by_plane(self, head: int) -> list[dict[str, Any]]:
        """Return a line for each plane of a rotary head: how fast it turns and what it holds."""
        if self.frequencies is None or self.query_planes is None or self.key_planes is None:
            return []
        queries = self.query_planes[head]
        keys = self.key_planes[head // (self.heads // self.kv_heads)]
        total = max(float((queries * keys).sum()), np.finfo(float).tiny)
        return [
            {
                "plane": plane,
                "frequency": frequency,
                "wavelength": 2 * np.pi / abs(frequency) if frequency else np.inf,
                "query_energy": queries[plane],
                "key_energy": keys[plane],
                "share": queries[plane] * keys[plane] / total,
            }
            for plane, frequency in enumerate(self.frequencies)
        ]

    def by_distance(self, head: int) -> list[dict[str, Any]]:
        """Return a line for distances 0, 1, 2 to 3, 4 to 7 … of a rotary head: scores and attention."""
        if self.distances is None:
            return []
        attention = self.distances[head, :, 3].sum()
        return [
            {
                "from": 2 ** (place - 1) if place else 0,
                "to": 2**place - 1 if place else 0,
                "pairs": int(pairs),
                "mean_score": scores / pairs,
                "rms_score": (squares / pairs) ** 0.5,
                "attention": mass / attention,
            }
            for place, (pairs, scores, squares, mass) in enumerate(self.distances[head])
            if pairs
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
