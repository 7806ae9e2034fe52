"""Softmax, and attention as one operator."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.verification.balls import UNIT, Ball, outward, raised
from exactformer.verification.rounding import (
    FAR,
    blocks_of,
    softmax_enclosure,
    softmax_lost,
    softmax_total,
    softmax_weights,
)
from exactformer.verification.rules.products import mixed, scores
from exactformer.verification.rules.table import Context, NotCoveredError, axis, plain, rule


@rule("aten.softmax.int", "aten._softmax.default")
def softmax(
    ctx: Context,
    input: Ball,
    dim: int,
    dtype: torch.dtype | None = None,
    half_to_float: bool = False,
) -> Ball:
    """Bound the softmax over the last axis; a wider ``dtype`` is no more than the format."""
    if axis(dim, input, "softmax") != -1 or input.c.ndim < 2:
        raise NotCoveredError(f"softmax over axis {dim} of {input.c.ndim}, which is not the last")
    if half_to_float:
        raise NotCoveredError("half_to_float=True")
    if dtype is not None:
        narrower(ctx, dtype)
    return weights(ctx, input)


def narrower(ctx: Context, dtype: torch.dtype) -> None:
    """Refuse a number format with fewer digits than the arithmetic of the claim, or less range."""
    a = ctx.arithmetic
    if (
        not dtype.is_floating_point
        or torch.finfo(dtype).eps / 2 > (a.unit or 2.0**-24)
        or (a.unit and torch.finfo(dtype).max < a.largest)
    ):
        raise NotCoveredError(f"{str(dtype).removeprefix('torch.')} inside {ctx.arithmetic.name}")


def weights(ctx: Context, x: Ball, blocks: int = 0) -> Ball:
    """Bound the softmax over the last axis: its enclosure, and the rounding of its weights.

    ``blocks`` is how many blocks of keys fused attention takes; it may also scale scores by log₂ e
    before it subtracts their maximum, which rounds each once more. Without blocks none of this occurs.
    """
    keys = x.shape[-1]
    alive = None if x.dead is None else ~x.dead
    lower, p, upper = softmax_enclosure(x.c, x.radius, alive)
    away = torch.maximum(upper - p, p - lower).clamp_min(0.0) * raised(2)
    high, low = x.c + x.radius, x.c - x.radius
    if alive is not None:
        high = torch.where(alive, high, -torch.inf)
    distance = high.amax(-1, keepdim=True) - low
    if alive is not None:
        distance = torch.where(alive, distance, 0.0)
    distance = distance * raised(4)
    exponent: Tensor | float = 0.0
    if blocks:
        exponent = blocks * torch.where(distance < FAR, x.size, 0.0).amax(-1, keepdim=True)
    relative = softmax_weights(ctx.arithmetic, upper, distance, max(blocks, 1), exponent)
    lost = softmax_lost(ctx.arithmetic, keys)
    r = away + (p + away) * relative + lost
    if alive is not None:
        r = torch.where(alive, r, 0.0)
    total = softmax_total(ctx.arithmetic, keys, max(blocks, 1))
    return Ball(p, outward(r, 8), unity=total)


@rule("aten.scaled_dot_product_attention.default")
def attention(
    ctx: Context,
    query: Ball,
    key: Ball,
    value: Ball,
    attn_mask: Ball | Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Ball:
    """Bound softmax(s·QKᵀ + mask)V however a kernel of the format orders it.

    The scale may multiply queries and keys by its root, or scores, and with log₂ e: six roundings more.
    Kernels that take keys in blocks multiply what they have by exponentials of differences of maxima.
    """
    q, k, v = plain(query), plain(key), plain(value)
    if enable_gqa or q.c.ndim < 3:
        raise NotCoveredError("enable_gqa=True" if enable_gqa else "attention without a batch")
    queries, keys, d = q.shape[-2], k.shape[-2], q.shape[-1]
    if is_causal and (attn_mask is not None or queries != keys):
        raise NotCoveredError("is_causal=True with a mask, or with fewer queries than keys")
    s = d**-0.5 if scale is None else float(scale)
    raw = scores(ctx, q, Ball(k.c.mT, None if k.r is None else k.r.mT, across=k.spread), extra=6)
    c = raw.c * s
    # A kernel that scales queries and keys first may lose what underflows of one, times the other.
    lost = (q.length[..., :, None] + k.length[..., None, :]) * (ctx.loss(2) * d**0.5 * (1 + abs(s)))
    x = Ball(c, outward(raw.radius * abs(s) + c.abs() * 4 * UNIT + lost + ctx.loss(4), 8))
    if abs(s) > 1:
        ctx.watch(torch.maximum(q.length.amax(), q.length.amax() * k.length.amax()) * abs(s), d + 6)
        ctx.watch(k.length.amax() * abs(s), d + 6)
    if is_causal:
        one = torch.ones(queries, keys, dtype=torch.bool, device=q.c.device)
        x = Ball(x.c, x.r, dead=~one.tril().expand(x.shape))
    elif attn_mask is not None:
        x = masked(ctx, x, attn_mask)
    blocks = blocks_of(keys)
    return mixed(ctx, weights(ctx, x, blocks), v, extra=2 * blocks + 7)


def masked(ctx: Context, x: Ball, mask: Ball | Tensor) -> Ball:
    """Add a mask of numbers, or keep where a mask of truth values says so."""
    if isinstance(mask, Ball):
        from exactformer.verification.rules.products import add

        return add(ctx, x, mask)
    if mask.dtype != torch.bool:
        raise NotCoveredError(f"a mask of {mask.dtype}")
    dead = (~mask).expand(x.shape)
    return Ball(torch.where(dead, 0.0, x.c), torch.where(dead, 0.0, x.radius), dead=dead)
