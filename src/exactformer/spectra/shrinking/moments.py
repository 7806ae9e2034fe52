"""What the best smaller head depends on: second moments of queries and keys, input by input.

A smaller head replaces the scores qᵀk of a head by q'ᵀ L k', with L of rank r; q' and k' are what the
projections give once the layers before are shrunk. Softmax sees scores only up to a constant of each
query, so keys are centred over those that the query sees. With C_t the sum of (k_s − k̄_t)(k_s − k̄_t)ᵀ
over the keys s seen by query t, the squared error over all pairs that meet is

    E(L) = Σ_t (q_t; q'_t)ᵀ N C_t Nᵀ (q_t; q'_t),      N = diag(I, −L),   C_t of (k; k').

Where all queries of an input see the same keys, C_t is one matrix C for the input, and

    E(L) = Σ_inputs tr(P L K Lᵀ) − 2 ⟨G, L⟩ + T,    P = Σ q'q'ᵀ,  K = C of k',

exactly. Under a causal mask queries are taken in blocks, whose C_t are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from exactformer.errors import InputError
from exactformer.spectra.scores import Scores

_BLOCKS = 16
"""Blocks of queries in an input whose queries do not all see the same keys."""
_MEMORY = 2**29
"""Bytes of moments that are kept apart for one layer; inputs beyond do not enter."""


@dataclass(frozen=True)
class Moments:
    """The squared error of the scores as a function of L, for each key head of one layer."""

    queries: Tensor
    """P (blocks, key heads, m, m), of all query heads that share the key head."""
    keys: Tensor
    """K (blocks, key heads, m, m)."""
    cross: Tensor
    """G (key heads, m, m)."""
    total: Tensor
    """T (key heads,): the sum of squares of the scores themselves."""

    def error(self, left: Tensor, right: Tensor) -> Tensor:
        """Return E(L) for L = left · rightᵀ, each (key heads, m, r)."""
        inner = right.mT @ self.keys @ right
        fitted = ((self.queries @ left) * (left @ inner)).sum(dim=(0, -2, -1))
        crossed = (self.cross * (left @ right.mT)).sum(dim=(-2, -1))
        return (fitted - 2 * crossed + self.total).clamp(min=0)


class MomentSums:
    """Adds up moments of one layer; memory ends at :data:`_MEMORY`."""

    def __init__(self) -> None:
        self._queries: list[Tensor] = []
        self._keys: list[Tensor] = []
        self._cross: Tensor | float = 0.0
        self._total: Tensor | float = 0.0
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether no further input enters."""
        return self._bytes >= _MEMORY

    def add(self, original: Scores, changed: Scores) -> None:
        """Add the inputs of a batch, as the original model and the changed one attend to them."""
        m, seen_by = original.head_dim, original.visible
        for index in range(len(original.queries)):
            if self.full:
                return
            queries = _grouped(original, changed, index)
            keys = torch.cat([original.keys[index], changed.keys[index]], dim=-1).double()
            for rows, seen in blocks(seen_by[index]):
                p = queries[:, :, rows].flatten(1, 2)
                p, k = p.mT @ p, scatter(keys, seen)
                self._queries.append(p[:, m:, m:].clone())
                self._keys.append(k[:, m:, m:].clone())
                self._cross = self._cross + p[:, m:, :m] @ k[:, :m, m:]
                self._total = self._total + (p[:, :m, :m] * k[:, :m, :m]).sum(dim=(-2, -1))
                self._bytes += 2 * self._keys[-1].numel() * self._keys[-1].element_size()

    def result(self, name: str) -> Moments:
        """Return what has been added."""
        if not isinstance(self._cross, Tensor) or not isinstance(self._total, Tensor):
            raise InputError(
                f"module {name!r}: no query sees two keys in the given inputs, so its scores decide "
                "nothing; give longer inputs"
            )
        return Moments(
            torch.stack(self._queries), torch.stack(self._keys), self._cross, self._total
        )


def blocks(seen: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of queries with the keys that they see: rows, and their part of ``seen``."""
    rows = torch.nonzero(seen.sum(dim=1) > 1).flatten()
    if not len(rows):
        return
    alike = bool((seen[rows] == seen[rows[:1]]).all())
    for part in [rows] if alike else rows.chunk(_BLOCKS):
        yield part, seen[part]


def scatter(keys: Tensor, seen: Tensor) -> Tensor:
    """Return C_t of keys (heads, τ, m), centred over what each query sees; its mean over queries."""
    weights = seen.double()
    counts = weights.sum(dim=1, keepdim=True)
    keys = keys - keys.mean(dim=1, keepdim=True)  # loses less when the means are taken away
    means = weights @ keys / counts
    every = (keys * weights.sum(dim=0)[:, None]).mT @ keys
    return (every - (means * counts).mT @ means) / len(seen)


def _grouped(original: Scores, changed: Scores, index: int) -> Tensor:
    """Return queries of both models (key heads, query heads of each, τ, 2m)."""
    both = torch.cat([original.queries[index], changed.queries[index]], dim=-1).double()
    return both.reshape(original.kv_heads, -1, *both.shape[1:])
