"""LayerNorm and RMSNorm."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.verification.balls import UNIT, Ball, ball, norm_above, norm_below, outward, raised
from exactformer.verification.rounding import deviation
from exactformer.verification.rules.products import wide
from exactformer.verification.rules.table import Context, NotCoveredError, plain, rule


@rule("aten.layer_norm.default")
def layer_norm(
    ctx: Context,
    input: Ball,
    normalized_shape: list[int],
    weight: Ball | None = None,
    bias: Ball | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Ball:
    """Bound (x − mean)/√(variance + ε)·w + b over the last axis.

    Centring is a projection: it takes radii r to r(1 − 2/d) + mean(r) at most, and n to n. It loses
    γ_{d+3} of |x| + mean|x|, also where a kernel multiplies before it subtracts. See :func:`scaled`.
    """
    x = _over_the_last_axis(input, normalized_shape)
    d = x.shape[-1]
    y = x.c - x.c.mean(-1, keepdim=True)
    g = ctx.share(d + 4)
    mean_size = x.length[..., None] * (d**-0.5 * raised(4))
    local = (x.size + mean_size) * g + ctx.loss(d + 3)
    r = x.radius * max(1 - 2 / d, 0.0) + x.radius.mean(-1, keepdim=True)
    n = x.spread + x.length * (2 * g) + ctx.loss(d + 3) * d**0.5
    z = scaled(ctx, y, outward(r, d + 8), outward(local, 4), outward(n, 8), x.length, eps)
    return affine(ctx, z, weight, bias)


@rule("aten.rms_norm.default")
def rms_norm(
    ctx: Context,
    input: Ball,
    normalized_shape: list[int],
    weight: Ball | None = None,
    eps: float | None = None,
) -> Ball:
    """Bound x/√(mean square + ε)·w over the last axis: LayerNorm without centring."""
    x = _over_the_last_axis(input, normalized_shape)
    if eps is None:
        raise NotCoveredError("eps=None, which depends on the number format")
    z = scaled(ctx, x.c, x.radius, torch.zeros_like(x.c), x.spread, x.length, eps)
    return affine(ctx, z, weight, None)


def _over_the_last_axis(input: Ball, shape: list[int]) -> Ball:
    x = plain(input)
    if len(shape) != 1 or x.c.ndim < 2 or shape[0] != x.shape[-1]:
        raise NotCoveredError(f"a norm over the last {len(shape)} axes")
    return x


def scaled(
    ctx: Context, y: Tensor, r: Tensor, local: Tensor, n: Tensor, length: Tensor, eps: float
) -> Ball:
    """Bound g(y) = y/σ(y), σ(y) = √(‖y‖²/d + ε), for vectors within r and n of y, and its rounding.

    The derivative (I − yyᵀ/(dσ²))/σ has norm at most 1/σ, so ‖g(ŷ) − g(y)‖ ≤ n/σ_min, where
    σ_min = σ at ‖y‖ − n. Entry by entry g changes by at most r/σ_min + |y| times the larger of
    1/σ_min − 1/σ and 1/σ − 1/σ_max: for short vectors 1/σ is concave, and the second is larger.
    ``local`` is what rounding has done to the numerator, whose effect no cancellation needs to lessen;
    the computed 1/σ̂ comes from :func:`deviation`.
    """
    d = y.shape[-1]
    above, below = norm_above(y), norm_below(y)
    near = (below - n).clamp_min(0.0) * (1 - 4 * UNIT)
    down = 1 - (d + 16) * 2 * UNIT
    least = (near * near / d + eps).sqrt() * down
    most = ((above + n).square() / d + eps).sqrt() * raised(8)
    sigma = (torch.linalg.vector_norm(y, dim=-1).square() / d + eps).sqrt()
    inverse, relative = deviation(ctx.arithmetic, least, outward(length, 2), d, eps)
    one = 1 / sigma
    swing = torch.maximum(1 / least - one, one - 1 / most).clamp_min(0.0)
    own = ctx.share(1) + (d + 32) * 2 * UNIT
    swing = swing + one * own
    c = y * one[..., None]
    moved = n / least
    change = torch.minimum(
        (r + local) / least[..., None] + y.abs() * swing[..., None], moved[..., None]
    )
    share = relative + own + relative * own
    inverse = inverse * (1 + own)
    rounded = (c.abs() + change) * share[..., None] + local * inverse[..., None]
    token = moved + d**0.5 * share + norm_above(local) * inverse
    ctx.watch(outward(length, 2) * outward(length, 2), 2 * d)
    ctx.watch(inverse)
    lost = ctx.loss(4)
    return ball(c, outward(change + rounded + lost, 16), outward(token + lost * d**0.5, 16))


def affine(ctx: Context, z: Ball, weight: Ball | None, bias: Ball | None) -> Ball:
    """Bound z·w + b, entry by entry: three roundings."""
    if weight is None and bias is None:
        return z
    g, lost = ctx.share(3), ctx.loss(3)
    d = z.shape[-1]
    w = Ball(z.c.new_ones(d)) if weight is None else plain(weight)
    c = z.c * w.c
    r = z.radius * w.magnitude + (z.size * w.size) * g
    n = z.spread * w.magnitude.amax() + z.length * (w.size.amax() * g)
    if w.r is not None:
        r, n = r + z.size * w.r, n + z.length * w.r.amax()
    ctx.watch(z.size.amax() * w.largest + (0.0 if bias is None else bias.largest), 3)
    if bias is not None:
        c = c + plain(bias).c
        r = r + (bias.size * g + bias.radius)
        n = n + wide(bias, c) + norm_above(bias.size) * g
    return ball(c, outward(r + lost, 12), outward(n + lost * d**0.5, d + 12))
