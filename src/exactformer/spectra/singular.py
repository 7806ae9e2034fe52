"""Singular values of a score matrix Q Kᵀ that is never formed.

With thin factorisations Q = U R and K = V S, Q Kᵀ = U (R Sᵀ) Vᵀ has the singular values of the m × m
matrix R Sᵀ: τ m² operations and τ m numbers instead of τ³ and τ². Only rows of tokens that are there
enter.

Orthogonal factorisations are backward stable, so each value has an error of a few ε ‖Q‖‖K‖ in float64.
Products QᵀQ would be cheaper, but their eigenvalues are squares: what lies below √ε of the largest is
lost, and with it the rank. They are good enough for shares of energy, and for those they are used.

Queries and keys carry the rounding of the model that made them, so a value is told from zero only above

    max(τ, m) · ε · ‖Q‖₂ ‖K‖₂,    ε that of the model's number format,

the usual rule for the rank of a matrix, with the norms of the factors in place of their product's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from exactformer.spectra.scores import Scores


@dataclass(frozen=True)
class SingularValues:
    """Of the heads of one module on one input."""

    values: Tensor
    """(heads, m) float64, descending; zeros where there are fewer tokens than m."""
    resolution: Tensor
    """(heads,): what a value must exceed to be told from zero."""
    tokens: int
    """The lesser of the numbers of queries and keys."""
    left: Tensor
    """(heads, min(τ_q, m), m): R, so that RᵀR = QᵀQ."""
    right: Tensor
    """(kv_heads, min(τ_k, m), m): S, so that SᵀS = KᵀK."""

    @property
    def ranks(self) -> Tensor:
        """(heads,): values above the resolution."""
        return (self.values > self.resolution[:, None]).sum(dim=-1)


def singular_values(queries: Tensor, keys: Tensor) -> SingularValues:
    """Return the values for queries (heads, τ_q, m) and keys (kv_heads, τ_k, m) of one input."""
    share = queries.shape[0] // keys.shape[0]
    left, right = _triangle(queries), _triangle(keys)
    values = torch.linalg.svdvals(left @ right.repeat_interleave(share, dim=0).mT)
    norms = _norm(left) * _norm(right).repeat_interleave(share, dim=0)
    m, longest = queries.shape[-1], max(*queries.shape[1:], keys.shape[1])
    eps = torch.finfo(queries.dtype).eps
    return SingularValues(
        pad(values, (0, m - values.shape[-1])),
        longest * eps * norms,
        min(queries.shape[1], keys.shape[1]),
        left,
        right,
    )


def present(scores: Scores, index: int, centred: bool = False) -> tuple[Tensor, Tensor]:
    """Return queries and keys of the tokens of one input that are there.

    ``centred`` takes the mean key away: it adds to each query's scores a number that is the same for
    all keys, which a softmax does not see.
    """
    queries = scores.queries[index][:, scores.query_tokens[index]]
    keys = scores.keys[index][:, scores.key_tokens[index]]
    return queries, keys - keys.mean(dim=1, keepdim=True) if centred else keys


def symmetric_root(moment: Tensor) -> Tensor:
    """Return the root of a moment matrix (…, m, m)."""
    values, vectors = torch.linalg.eigh(moment)
    root: Tensor = vectors * values.clamp(min=0).sqrt()[..., None, :] @ vectors.mT
    return root


def pooled_values(queries: Tensor, keys: Tensor) -> NDArray[np.float64]:
    """Return the values of all queries against all keys, by moments Σ QᵀQ (heads, m, m) and Σ KᵀK."""
    share = len(queries) // len(keys)
    product = symmetric_root(queries) @ symmetric_root(keys).repeat_interleave(share, dim=0)
    values: NDArray[np.float64] = torch.linalg.svdvals(product).numpy()
    return values


def _triangle(x: Tensor) -> Tensor:
    """Return the R of a thin factorisation (heads, min(τ, m), m), in float64 on the CPU.

    On the CPU one head after the other, so that only one of them is ever held in float64; on a GPU
    all at once, which is what it is fast at.
    """
    parts = [head.unsqueeze(0) for head in x] if x.device.type == "cpu" else [x]
    return torch.cat([torch.linalg.qr(part.double(), mode="r").R.cpu() for part in parts])


def _norm(triangle: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.matrix_norm(triangle, ord=2)
    return norm
