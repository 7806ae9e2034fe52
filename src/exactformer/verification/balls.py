"""Balls: tensors of centres with radii, entry by entry and in the 2-norm of a token.

A ball holds every tensor that an execution in the arithmetic can produce at its place. Centres and
radii are float64. A radius is a sum of products of numbers that are not negative, so float64 loses
at most a known share of it: :func:`outward` puts that back, and what underflow can lose. Whatever
is not finite stays so, and nothing is proven by a comparison that NaN passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

UNIT = 2.0**-53
"""Unit roundoff of float64, in which centres and radii are computed."""
SMALL = 2.0**-1020
"""More than what underflow can cost one operation in float64, flushed or not."""
_NORM_SMALL = 2.0**-505
"""More than the root of what underflow can cost a sum of squares, per root of its length."""


def gamma64(roundings: int) -> float:
    """Return γ_k of float64 for k far below 2⁵⁰, rounded up.

    >>> gamma64(10) > 10 * 2.0**-53
    True
    """
    return roundings * UNIT * (1 + 2.0**-10)


def raised(roundings: int) -> float:
    """Return a factor that makes up for so many roundings of sums and products of positive numbers."""
    return 1 + (roundings + 8) * 2 * UNIT


def outward(radius: Tensor, roundings: int = 0) -> Tensor:
    """Raise computed radii to what is at least the exact ones."""
    return radius * raised(roundings) + SMALL * (roundings + 2)


def norm_above(values: Tensor) -> Tensor:
    """Return upper bounds of 2-norms over the last axis; squares that underflow are made up for."""
    d = values.shape[-1]
    norm = torch.linalg.vector_norm(values, dim=-1)
    bound: Tensor = norm * raised(d) + d**0.5 * _NORM_SMALL
    return bound


def norm_below(values: Tensor) -> Tensor:
    """Return lower bounds of 2-norms over the last axis."""
    d = values.shape[-1]
    norm = torch.linalg.vector_norm(values, dim=-1)
    bound: Tensor = norm * (1 - (d + 8) * 2 * UNIT) - d**0.5 * _NORM_SMALL
    return bound.clamp_min(0.0)


def spectral_norm(matrix: Tensor, doublings: int = 6) -> Tensor:
    """Return an upper bound of the 2-norm of a matrix, or of each matrix of a stack.

    With G = WWᵀ, scaled to Frobenius norm 1 before every squaring, ‖W‖₂ ≤ ‖G^(2^k)‖_F^(1/2^(k+1)).
    A product of d-by-d matrices of norm 1 is off by at most γ_d in the Frobenius norm, and
    λ_max(G) ≥ 1/√d, so each squaring changes λ_max² by at most dγ_d of itself, which counts half in
    the next root, and so on; the first product sums over the longer side and changes λ_max by at most
    dγ_k. Together a share below 16·d·(k + d)·2⁻⁵³.
    """
    top = matrix.abs().amax((-2, -1), keepdim=True)
    scaled = matrix / torch.where(top > 0, top, 1.0)
    rows, columns = matrix.shape[-2:]
    gram = scaled.mT @ scaled if rows > columns else scaled @ scaled.mT
    least, most = sorted((rows, columns))
    log = torch.zeros_like(top)
    for power in range(doublings + 1):
        size = torch.linalg.matrix_norm(gram, keepdim=True).clamp_min(SMALL)
        log = log + torch.log(size) / 2**power
        if power < doublings:
            gram = gram / size
            gram = gram @ gram
    slack = 1 + 16 * least * (least + most) * UNIT + 1e-12
    bound = top * torch.exp(log / 2) * slack
    return torch.where(top > 0, bound, top)[..., 0, 0]


@dataclass(frozen=True, eq=False)
class Ball:
    """A tensor known up to radii. ``r`` is None where it is known exactly."""

    c: Tensor
    """The centre."""
    r: Tensor | None = None
    """Radii, entry by entry."""
    n: Tensor | None = None
    """Radii in the 2-norm of the last axis, or None where nothing better than ‖r‖ is known."""
    across: Tensor | None = None
    """Radii in the 2-norm of the last axis but one, as a transposition leaves them."""
    dead: Tensor | None = None
    """Where an entry is −∞ in every execution, as a mask makes it; its centre there is 0."""
    unity: float | None = None
    """For weights that a softmax made: how far their sums over the last axis are from 1 at most."""

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return self.c.shape

    @cached_property
    def radius(self) -> Tensor:
        """Radii, zeros where the ball is exact."""
        return torch.zeros_like(self.c) if self.r is None else self.r

    @cached_property
    def size(self) -> Tensor:
        """Magnitudes |c| + r; one rounding."""
        return self.c.abs() if self.r is None else self.c.abs() + self.r

    @cached_property
    def spread(self) -> Tensor:
        """Radii in the 2-norm of the last axis."""
        if self.n is not None:
            return self.n
        if self.r is None:
            return torch.zeros_like(self.c[..., 0])
        return norm_above(self.r)

    @cached_property
    def length(self) -> Tensor:
        """Upper bounds of the 2-norm over the last axis; two roundings more than the norms."""
        return norm_above(self.c) + self.spread

    @cached_property
    def magnitude(self) -> Tensor:
        """|c| as a matrix that is used again and again, of weights."""
        return self.c.abs()

    @cached_property
    def spectral(self) -> Tensor:
        """Upper bounds of the 2-norms of |W| and of any W in the ball, stacked: first W, then |W|."""
        norms = spectral_norm(torch.stack([self.c, self.magnitude]))
        if self.r is None:
            return norms
        return outward(norms + norm_above(self.r.flatten()), 2)

    @cached_property
    def turned(self) -> Ball:
        """The transposed matrix."""
        return Ball(self.c.mT.contiguous(), None if self.r is None else self.r.mT)

    @cached_property
    def longest(self) -> Tensor:
        """The largest 2-norm over the last axis."""
        return self.length.amax()

    @cached_property
    def largest(self) -> Tensor:
        """The largest magnitude."""
        return self.size.amax()


def ball(c: Tensor, r: Tensor, n: Tensor | None = None) -> Ball:
    """Return a ball of which the radii by entry are no larger than those of their token."""
    return Ball(c, r) if n is None else Ball(c, torch.minimum(r, n[..., None]), n)
