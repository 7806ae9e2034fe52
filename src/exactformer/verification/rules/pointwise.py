"""Functions of one entry: ReLU, GELU, SiLU, tanh, sigmoid, powers, roots."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from exactformer.core.formats import ROOT_ULPS
from exactformer.verification.balls import UNIT, Ball, ball, norm_above, outward
from exactformer.verification.rounding import activation
from exactformer.verification.rules.products import mul
from exactformer.verification.rules.table import Context, NotCoveredError, plain, rule


@rule("aten.relu.default")
def relu(ctx: Context, input: Ball) -> Ball:
    """Bound max(x, 0), which is exact and moves no two numbers apart."""
    x = plain(input)
    if x.r is None:
        return Ball(torch.relu(x.c))
    return Ball(torch.relu(x.c), torch.where(x.c + x.r * (1 + 4 * UNIT) <= 0, 0.0, x.r), x.n)


@rule("aten.gelu.default")
def gelu(ctx: Context, input: Ball, approximate: str = "none") -> Ball:
    """Bound x·Φ(x), or its form by tanh: slopes are at most 1.129, and 1.1301 by tanh."""
    if approximate not in ("none", "tanh"):
        raise NotCoveredError(f"approximate={approximate!r}")
    return _lipschitz(ctx, input, lambda c: functional.gelu(c, approximate=approximate), 1.1302)


@rule("aten.silu.default")
def silu(ctx: Context, input: Ball) -> Ball:
    """Bound x/(1 + exp(−x)), of slope at most 1.0999."""
    return _lipschitz(ctx, input, functional.silu, 1.0999)


@rule("aten.tanh.default")
def tanh(ctx: Context, input: Ball) -> Ball:
    """Bound tanh x, of slope at most 1; its size is at most that of x."""
    return _lipschitz(ctx, input, torch.tanh, 1.0)


@rule("aten.sigmoid.default")
def sigmoid(ctx: Context, input: Ball) -> Ball:
    """Bound 1/(1 + exp(−x)), of slope at most ¼."""
    return _lipschitz(ctx, input, torch.sigmoid, 0.25, whole=True)


@rule("aten.cos.default")
def cos(ctx: Context, input: Ball) -> Ball:
    """Bound cos x, of slope at most 1."""
    return _lipschitz(ctx, input, torch.cos, 1.0, whole=True)


@rule("aten.sin.default")
def sin(ctx: Context, input: Ball) -> Ball:
    """Bound sin x, of slope at most 1."""
    return _lipschitz(ctx, input, torch.sin, 1.0, whole=True)


def _lipschitz(
    ctx: Context,
    input: Ball,
    function: Callable[[Tensor], Tensor],
    slope: float,
    whole: bool = False,
) -> Ball:
    x = plain(input)
    c = function(x.c)
    local = activation(ctx.arithmetic, torch.ones_like(c) if whole else x.size)
    ctx.watch(x.size.amax() * 2 + 1, 4)
    if x.r is None:
        return Ball(c, outward(local, 4))
    r = outward(x.r * slope + local, 8)
    if x.n is None:
        return Ball(c, r)
    return ball(c, r, outward(x.n * slope + norm_above(local), 8))


@rule("aten.pow.Tensor_Scalar")
def power(ctx: Context, input: Ball, exponent: float) -> Ball:
    """Bound a square or a cube, by products."""
    if exponent not in (2, 3):
        raise NotCoveredError(f"exponent={exponent}")
    x = plain(input)
    square = mul(ctx, x, x)
    return square if exponent == 2 else mul(ctx, square, x)


@rule("aten.rsqrt.default")
def rsqrt(ctx: Context, input: Ball) -> Ball:
    """Bound 1/√x away from zero: the values at both ends of the ball."""
    x = plain(input)
    low = (x.c - x.radius) * (1 - 4 * UNIT)
    c = x.c.rsqrt()
    far = torch.maximum(low.rsqrt() - c, c - (x.size * (1 + 4 * UNIT)).rsqrt()).clamp_min(0.0)
    r = far + (c + far) * (ctx.share(ROOT_ULPS) + 16 * UNIT) + ctx.loss(2)
    ctx.watch(c + far)
    return Ball(c, torch.where(low > 0, outward(r, 4), torch.inf))
