"""The best latent of a given rank, from moments.

Let u be a state with covariance C, and let a change δ of it cost ½ δᵀGδ. Among all maps
û = μ + B A (u − μ) of rank r the mean cost ½ E (u − û)ᵀG(u − û) is least for

    A = U_rᵀ a,   B = a⁻¹ U_r,   with a = G^½ and a C a = U Λ Uᵀ,

and then is ½ Σ_{i>r} λ_i (Eckart, Young). Where latents z of layers below are known, u − μ − P(z − ν)
takes the place of u − μ, with the regression P = C_uz (C_zz + ridge)⁻¹. Only the root of G is
inverted, and a small multiple of the identity keeps it away from zero.

Any invertible r × r matrix between B and A gives the same map. The one that makes the columns of B
orthonormal is taken: latents then have the size of states, and rounding them does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

FLOOR = 1e-4
"""Of the mean eigenvalue of G, added to all."""
RIDGE = 1e-2
"""Of the mean variance of latents below, added to all."""


@dataclass(frozen=True)
class Latent:
    """Maps c = A (u − μ − P (z − ν)) and û = μ + P (z − ν) + B c, and what they lose."""

    encode: Tensor
    """A, (rank, state)."""
    decode: Tensor
    """B, (state, rank)."""
    mean: Tensor
    """μ, (state,)."""
    predict: Tensor
    """P, (state, below)."""
    mean_below: Tensor
    """ν, (below,)."""
    residual: Tensor
    """(state, state): the covariance of u − û."""

    def linear(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return weight and bias of c as a map of (u, z), and of û as a map of (z, c)."""
        shift = self.mean - self.predict @ self.mean_below
        encode = torch.cat([self.encode, -self.encode @ self.predict], dim=1)
        return encode, -self.encode @ shift, torch.cat([self.predict, self.decode], dim=1), shift

    def __call__(self, states: Tensor, below: Tensor) -> Tensor:
        """Return latents of states (n, state) whose lower latents are (n, below)."""
        weight, bias, *_ = self.linear()
        return torch.cat([states, below], dim=1) @ weight.T.to(states) + bias.to(states)


@dataclass(frozen=True)
class Basis:
    """All directions of a state, the dearest first, of which a latent keeps some."""

    values: Tensor
    """λ, descending."""
    whole: Latent
    """All of them; ``residual`` is that of none, the covariance of u − μ − P (z − ν)."""

    def keep(self, rank: int) -> Latent:
        """Return the latent of a given rank; at full rank it is the state itself."""
        whole = self.whole
        if rank >= len(whole.mean):
            one = torch.eye(len(whole.mean), dtype=whole.mean.dtype, device=whole.mean.device)
            none = torch.zeros_like(whole.mean)
            return Latent(one, one, none, 0 * whole.predict, whole.mean_below, 0 * one)
        return orthonormal(
            replace(whole, encode=whole.encode[:rank], decode=whole.decode[:, :rank])
        )


def orthonormal(latent: Latent) -> Latent:
    """Return the same map with orthonormal columns in B; the given ``residual`` is that of none."""
    q, r = torch.linalg.qr(latent.decode)
    encode = r @ latent.encode
    left = torch.eye(len(q), dtype=q.dtype, device=q.device) - q @ encode
    return replace(latent, encode=encode, decode=q, residual=left @ latent.residual @ left.T)


def basis(mean: Tensor, covariance: Tensor, roots: tuple[Tensor, Tensor]) -> Basis:
    """Return the directions for a covariance and the roots of a metric.

    Mean and covariance are those of (u, z), if the metric is smaller than they are; it says how many of
    the coordinates are u's.
    """
    root, inverse = roots
    state = len(root)
    here, below = slice(0, state), slice(state, None)
    predict = covariance.new_zeros(state, len(mean) - state)
    left = covariance[here, here]
    if len(mean) > state:
        lower, across = covariance[below, below], covariance[here, below]
        ridge = RIDGE * lower.diagonal().mean()
        steady = lower + ridge * torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        predict = torch.linalg.solve(steady, across.T).T
        crossed = predict @ across.T
        left = left - crossed - crossed.T + predict @ lower @ predict.T
    values, vectors = torch.linalg.eigh(root @ left @ root)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
    return Basis(
        values,
        Latent(vectors.T @ root, inverse @ vectors, mean[here], predict, mean[below], left),
    )


def metric_roots(metric: Tensor) -> tuple[Tensor, Tensor]:
    """Return (G + floor)^½ and its inverse."""
    values, vectors = torch.linalg.eigh(metric)
    floor = FLOOR * values.mean().clamp(min=1e-300)
    roots = (values.clamp(min=0) + floor).sqrt()
    return vectors * roots @ vectors.T, vectors / roots @ vectors.T
