"""The best smaller head: L of rank r that keeps the scores.

**Whitened truncation.** With P = Σ qqᵀ and K = Σ (k − k̄)(k − k̄)ᵀ over all inputs, the error
‖P^½ (I − L) K^½‖ is least for the truncated singular value decomposition P^½ K^½ = U Σ Vᵀ:

    L = K^½ V_r Σ_r⁻¹ U_rᵀ P^½,

which inverts nothing but the values it keeps. With P = W_Q W_Qᵀ and K = W_K W_Kᵀ in their place this is
the plain truncation of W_Qᵀ W_K: what the weights alone can say.

**Refinement.** Tokens meet within an input only, so the true error is a sum over inputs. For one factor
of L = A Bᵀ held it is a quadratic of the other, Σ P_i A (BᵀK_iB) = G B, solved by a few steps of
conjugate gradients, preconditioned by the moments of all inputs together; the factors take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from exactformer.spectra.shrinking.moments import Moments
from exactformer.spectra.singular import symmetric_root

_SWEEPS = 3
_STEPS = 4
_TINY = 1e-12
"""Singular values, or shares of an error, below this times the largest are rounding."""


@dataclass(frozen=True)
class Truncation:
    """The directions of P^½ K^½, of which a smaller head keeps the first."""

    left: Tensor
    """(key heads, m, m): for queries, K^½ V Σ^(−½)."""
    right: Tensor
    """(key heads, m, m): for keys, P^½ U Σ^(−½)."""
    values: Tensor
    """(key heads, m): Σ, descending."""

    def energy(self) -> Tensor:
        """Return the share of Σσ² in the first k values (key heads, m); 1 where all are zero."""
        squares = self.values.square()
        total = squares.sum(dim=-1, keepdim=True)
        return torch.where(total > 0, squares.cumsum(dim=-1) / total.clamp(min=1e-300), 1.0)

    def dims_for(self, energy: float) -> Tensor:
        """Return the smallest dimension of each head that keeps a share of the energy."""
        short = self.energy() < energy * (1 - _TINY)
        return (short.sum(dim=-1) + 1).clamp(max=self.values.shape[-1])

    def keep(self, dims: Tensor) -> tuple[Tensor, Tensor]:
        """Return A and B (key heads, m, largest dim); columns beyond a head's own dim are zero."""
        width = int(dims.max())
        kept = torch.arange(width, device=dims.device) < dims[:, None]
        return self.left[..., :width] * kept[:, None], self.right[..., :width] * kept[:, None]


def truncation(queries: Tensor, keys: Tensor) -> Truncation:
    """Return the decomposition for moments P and K (key heads, m, m)."""
    p, k = symmetric_root(queries), symmetric_root(keys)
    u, values, vh = torch.linalg.svd(p @ k)
    real = values > _TINY * values[:, :1]
    scale = torch.where(real, values, 1.0).rsqrt() * real
    return Truncation(k @ vh.mT * scale[:, None], p @ u * scale[:, None], values)


def refined(moments: Moments, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Lower the error of the scores over the inputs, from a first A and B; it never grows."""
    error = moments.error(left, right)
    if bool((error <= _TINY * moments.total).all()):
        return left, right
    p_inverse = _pseudo_inverse(moments.queries.sum(dim=0))
    k_inverse = _pseudo_inverse(moments.keys.sum(dim=0))
    for _ in range(_SWEEPS):
        inner = right.mT @ moments.keys @ right
        a = _solve(moments.queries, inner, moments.cross @ right, left, p_inverse)
        inner = a.mT @ moments.queries @ a
        b = _solve(moments.keys, inner, moments.cross.mT @ a, right, k_inverse)
        now = moments.error(a, b)
        better = (now < error)[:, None, None]
        left, right = torch.where(better, a, left), torch.where(better, b, right)
        error = torch.minimum(now, error)
    return left, right


def balanced(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same L from factors of equal size, strongest directions first."""
    a, r = torch.linalg.qr(left)
    b, s = torch.linalg.qr(right)
    u, values, vh = torch.linalg.svd(r @ s.mT)
    root = values.sqrt()[:, None]
    return a @ u * root, b @ vh.mT * root


def _solve(outer: Tensor, inner: Tensor, right: Tensor, start: Tensor, inverse: Tensor) -> Tensor:
    """Return X near Σ outer_i X inner_i = right, by conjugate gradients from ``start``."""
    across = _pseudo_inverse(inner.mean(dim=0))

    def dot(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum(dim=(-2, -1), keepdim=True)

    x = start
    residual = right - (outer @ x @ inner).sum(dim=0)
    step = ahead = inverse @ residual @ across
    size = dot(residual, ahead)
    for _ in range(_STEPS):
        image = (outer @ step @ inner).sum(dim=0)
        length = _ratio(size, dot(step, image))
        x, residual = x + length * step, residual - length * image
        ahead = inverse @ residual @ across
        before, size = size, dot(residual, ahead)
        step = ahead + _ratio(size, before) * step
    return x


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)


def _pseudo_inverse(moment: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(moment)
    real = values > _TINY * values[..., -1:].clamp(min=0)
    inverse = torch.where(real, values, 1.0).reciprocal() * real
    result: Tensor = vectors * inverse[..., None, :] @ vectors.mT
    return result
