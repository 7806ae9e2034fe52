"""Lemmas about rounding: numbers in, bounds out, for any arithmetic of :mod:`exactformer.core.formats`.

Every bound holds for all orders of summation, blocks, fused products and flushing that the arithmetic
allows, and includes what float64 loses when the centre itself is computed: with u for the unit of the
arithmetic and v = 2⁻⁵³, a share γ_k(u) + γ_k(v) of the magnitudes, and k times what underflow can cost.
"""

from __future__ import annotations

from math import ceil, inf

import torch
from torch import Tensor

from exactformer.core.formats import ACTIVATION_ULPS, KEYS_PER_BLOCK, ROOT_ULPS, Arithmetic
from exactformer.verification.balls import SMALL, UNIT, gamma64

FAR = 1000.0
"""Exponentials of −1000 and below vanish in every format and in float64."""


def share(a: Arithmetic, roundings: int) -> float:
    """Return the share of its magnitude that a term can lose in so many roundings.

    A sum of k products and a bias has k + 1 terms: each goes through its own product and through at
    most k additions, in any tree, so k + 1 roundings bound all of them, the bias included wherever
    it enters.
    """
    return a.gamma(roundings) + gamma64(roundings)


def loss(a: Arithmetic, operations: int) -> float:
    """Return what so many operations can lose to underflow, before and after they are read.

    Sums grow what their terms have lost by 1 + γ at most, which is below 2 wherever γ is finite.
    """
    return (operations + 1) * (2 * a.tiny + SMALL)


def read(a: Arithmetic, numbers: Tensor) -> Tensor | None:
    """Return radii of parameters: those that may be read as zero are off by themselves."""
    if not a.normal:
        return None
    size = numbers.abs()
    small = size < a.normal
    return torch.where(small, size, 0.0) if bool((small & (size > 0)).any()) else None


def scalar(a: Arithmetic, number: float) -> float:
    """Return the radius of a number in the user's code, which is rounded to the format."""
    return (a.unit * abs(number) + (a.tiny if number else 0.0)) * (1 + 2.0**-10)


def activation(a: Arithmetic, magnitude: Tensor) -> Tensor:
    """Return the error of GELU, SiLU, tanh or sigmoid at arguments of such magnitude.

    Each is a product of its argument, or of 1, with a factor between 0 and 1 that a kernel computes
    to a few units in the last place of 1, or from an exponential.
    """
    relative = ACTIVATION_ULPS * (a.unit + UNIT) + a.exponential
    return magnitude * relative + loss(a, 3)


def softmax_enclosure(c: Tensor, r: Tensor, alive: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return lower bounds of the softmax over c ± r, its value at c, and upper bounds; real arithmetic.

    With l = c − r and h = c + r, a weight lies between 1/(1 + Σ_{j≠i} exp(h_j − l_i)) and
    1/(1 + Σ_{j≠i} exp(l_j − h_i)). Sums over the others are sums over the others: the total less
    one term would cancel. A computed exponent is off by (3|c| + 3r)v, which with the sums is a factor
    exp((8n + 32 + 8·max|c ± r|)v) at most, and what underflows is below 10⁻³⁰⁰. Entries more than
    1000 below the others, such as masks make them, weigh nothing, and their size makes no share larger.
    """
    n = c.shape[-1]
    if alive is not None:
        c, r = torch.where(alive, c, -inf), torch.where(alive, r, 0.0)
    low, high = c - r, c + r
    low_top, high_top = low.amax(-1, keepdim=True), high.amax(-1, keepdim=True)
    others = 1 - torch.eye(n, dtype=c.dtype, device=c.device)
    least = (torch.exp(low - low_top) @ others) * torch.exp((low_top - high).clamp_max(700.0))
    most = (torch.exp(high - high_top) @ others + SMALL * n) * torch.exp(high_top - low)
    upper, lower = 1 / (1 + least), 1 / (1 + most)
    size = torch.maximum(high.abs(), low.abs())
    gap = (low_top - high) * (1 - 2.0**-50) - low_top.abs() * 2.0**-50
    size = torch.where(gap > FAR, 0.0, size)
    if alive is not None:
        upper, lower = torch.where(alive, upper, 0.0), torch.where(alive, lower, 0.0)
    slack = UNIT * (8 * n + 32 + 8 * size.amax(-1, keepdim=True))
    upper = (upper * torch.exp(slack) + 1e-300).clamp_max(1.0)
    lower = (lower * torch.exp(-slack) - 1e-300).clamp_min(0.0)
    if alive is not None:
        upper = torch.where(alive, upper, 0.0)
    return lower, torch.softmax(c, -1), upper


def softmax_weights(
    a: Arithmetic, upper: Tensor, distance: Tensor, blocks: int = 1, exponent: Tensor | float = 0.0
) -> Tensor:
    """Return relative errors of weights exp(x_i − m)/Σ as they are computed.

    ``distance`` bounds m − x_i, ``upper`` the true weights, and ``exponent`` what else may be
    rounded in an exponent (scores times log₂ e before their maximum is subtracted). The rounded
    difference changes the exponential by expm1(u·distance); T blocks of keys cost 2T more
    exponentials of rescaling. What all terms together can be off by is a mean of their errors with
    the true weights, so those of masked or distant keys count as little as they weigh. Below
    exp(−1000) everything underflows.
    """
    rescaling = 2 * (blocks - 1)
    e = a.exponential * (1 + rescaling) + share(a, 1 + 4 * rescaling)
    t = distance.clamp_max(FAR) * (1 + rescaling) + exponent
    shift = torch.expm1(a.unit * 1.01 * t)
    own = shift + e + shift * e
    total = (upper * own).sum(-1, keepdim=True)
    total = total + share(a, upper.shape[-1] + 2 * blocks + 4) * (1 + total)
    rounded = share(a, 4)
    relative = (own + rounded + own * rounded + total) / (1 - total)
    return torch.where(total < 0.5, relative, inf)


def softmax_lost(a: Arithmetic, keys: int) -> float:
    """Return the absolute error of one weight from underflow: numerators are at most 1, sums at
    least ½.
    """
    return 2 * loss(a, keys + 3)


def softmax_total(a: Arithmetic, keys: int, blocks: int = 1) -> float:
    """Return how far computed weights can add up from 1, whatever their exponentials were."""
    off = share(a, keys + 2 * blocks + 8)
    return 2 * off + keys * softmax_lost(a, keys) if off < 0.25 else inf


def blocks_of(keys: int) -> int:
    """Return how many blocks of keys fused attention takes at most.

    >>> blocks_of(16), blocks_of(17)
    (1, 2)
    """
    return ceil(keys / KEYS_PER_BLOCK)


def deviation(
    a: Arithmetic,
    least: Tensor,
    size: Tensor,
    d: int,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Return what 1/√(variance + ε) is at most as computed, and its relative error.

    ``least`` is a lower bound of √(variance + ε), ``size`` an upper bound of the 2-norm of the vector.
    Two passes or Welford's formula are off by γ_{3d+8} of the mean square at most, and are never
    negative; the naive formula is excluded. For σ² off by s, 1/σ is off by a share of
    (1 − s/σ²)^(−½) − 1, largest where σ is least, or where σ² = ε + s.
    """
    slack = size * size * (share(a, 3 * d + 8) / d) + (a.unit + UNIT) * 4 * eps + loss(a, d)
    floor = eps * (1 - 4 * (a.unit + UNIT)) - loss(a, d)
    square = torch.maximum(least * least * (1 - 8 * UNIT), floor + slack)
    kept = square - slack * (1 + 2.0**-40)
    ratio = (square / kept).sqrt()
    relative = (1 + (ratio - 1).clamp_min(0.0)) * (1 + share(a, ROOT_ULPS)) - 1 + 8 * UNIT
    inverse = (1 + 16 * UNIT) * (1 + share(a, ROOT_ULPS)) / kept.sqrt()
    good = kept > square * 1e-6
    return torch.where(good, inverse, inf), torch.where(good, relative, inf)
