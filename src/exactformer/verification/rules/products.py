"""Sums and products: linear layers, products of matrices, addition, multiplication, embeddings."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from exactformer.verification.balls import SMALL, Ball, ball, norm_above, outward, raised
from exactformer.verification.rounding import read, softmax_total
from exactformer.verification.rules.table import Context, NotCoveredError, axis, plain, rule


@rule("aten.linear.default")
def linear(ctx: Context, input: Ball, weight: Ball, bias: Ball | None = None) -> Ball:
    """Bound y = xWᵀ + b.

    ŷ − Wc − b is at most |W|r + |r_W|(|c| + r) + r_b, and γ_{k+1} of Σ|w||x| + |b| from rounding.
    In the 2-norm it is at most ‖W‖₂n, with γ_{k+1}(‖|W|‖₂‖x‖ + ‖b‖) from rounding.
    """
    x, w = plain(input), plain(weight)
    if x.c.ndim < 1 or w.c.ndim != 2:
        raise NotCoveredError(f"a weight with {w.c.ndim} axes")
    return _affine(ctx, x, w, None if bias is None else plain(bias))


@rule("aten.addmm.default")
def addmm(ctx: Context, input: Ball, mat1: Ball, mat2: Ball) -> Ball:
    """Bound b + xW, a linear layer of the transposed weight."""
    if mat2.unity is not None or input.c.ndim != 1:
        raise NotCoveredError("a bias that is not one row")
    return _affine(ctx, plain(mat1), plain(mat2).turned, plain(input))


def _affine(ctx: Context, x: Ball, w: Ball, b: Ball | None) -> Ball:
    outputs, k = w.shape
    g, lost, up = ctx.share(k + 1), ctx.loss(k + 1), raised(2 * k + 8)
    c = functional.linear(x.c, w.c, None if b is None else b.c)
    constant = x.c.new_zeros(outputs) if b is None else b.size * g + b.radius
    # A radius that underflows is made up for wherever a large weight multiplies it.
    constant = (constant + lost + w.magnitude.sum(1) * SMALL) * up
    size = torch.add(x.size * g, x.radius) * up if x.r is not None else x.size * (g * up)
    r = functional.linear(size, w.magnitude, constant)
    if w.r is not None:
        r = r + functional.linear(x.size, w.r) * (up * (1 + g))
    spectral, absolute = w.spectral.unbind()
    n = x.spread * spectral + x.length * (g * absolute) + norm_above(constant)
    if w.r is not None:
        n = n + x.length * norm_above(w.r.flatten()) * (1 + g)
    reach = x.length.amax() * w.longest + (0.0 if b is None else b.largest)
    ctx.watch(reach, k + 1)
    return ball(c, r, outward(n, k + 16))


@rule("aten.matmul.default", "aten.bmm.default", "aten.mm.default")
def product(ctx: Context, input: Ball, other: Any = None, mat2: Any = None) -> Ball:
    """Bound a product of two balls of matrices.

    |ÂB̂ − AB| ≤ r_A|B| + (|A| + r_A)r_B + γ_k of the product of magnitudes; row by column also
    n_a‖b‖ + ‖a‖n_b, by Cauchy-Schwarz. Weights that a softmax made go another way: :func:`mixed`.
    """
    a, b = plain(input), plain(other if mat2 is None else mat2)
    if a.c.ndim < 2 or b.c.ndim < 2:
        raise NotCoveredError("a product with a vector")
    if a.unity is not None and b.unity is None:
        return mixed(ctx, a, b, extra=0)
    if b.c.ndim == 2 and b.across is None:
        return _affine(ctx, a, b.turned, None)
    return scores(ctx, a, b, extra=0)


def scores(ctx: Context, a: Ball, b: Ball, extra: int) -> Ball:
    """Bound AB row by column; ``extra`` roundings more than those of the sums."""
    k = a.shape[-1]
    g, up = ctx.share(k + extra), raised(2 * k + 8)
    c = a.c @ b.c
    left = a.size * g + a.radius
    r = left @ b.c.abs()
    if b.r is not None:
        r = r + a.size @ (b.r * (1 + g))
    lost = ctx.loss(k + extra) + (a.length.amax() + b.largest) * (k * SMALL)
    r = r * up + lost
    columns = b.across if b.across is not None else norm_above(b.radius.mT)
    long = norm_above(b.c.mT)
    rows = (a.spread + a.length * g)[..., :, None] * long[..., None, :]
    rows = rows + a.length[..., :, None] * (columns * (1 + g))[..., None, :]
    ctx.watch(a.length.amax() * (long + columns).amax(), k + extra)
    return Ball(c, torch.minimum(r, rows * up + lost))


def mixed(ctx: Context, p: Ball, v: Ball, extra: int) -> Ball:
    """Bound a mean Σp_j v_j with weights p̂ of a softmax.

    With any number m, Σp̂v̂ − Σpv = Σ(p̂ − p)(v − m) + m(Σp̂ − Σp) + Σp̂(v̂ − v): what all values have in
    common meets only the error of the weights' sum. m is the middle of the values.
    """
    k = v.shape[-2]
    assert p.unity is not None
    g, up = ctx.share(k + extra), raised(3 * k + 16)
    middle = (v.c.amax(-2, keepdim=True) + v.c.amin(-2, keepdim=True)) / 2
    away = v.c - middle
    weights = p.size
    r = p.radius @ away.abs() + weights @ (v.radius + v.size * g)
    off = p.unity + softmax_total(ctx.arithmetic, k)
    r = (r + middle.abs() * off) * up + ctx.loss(k + extra)
    n = p.radius @ norm_above(away)[..., None] + weights @ (v.spread + v.length * g)[..., None]
    n = n[..., 0] + norm_above(middle) * off
    d = v.shape[-1]
    # Fused attention adds up what is not yet divided: numerators are at most 1 each.
    ctx.watch(v.size.amax() * k, k + extra)
    return ball(p.c @ v.c, r, n * up + ctx.loss(k + extra) * d**0.5)


@rule("aten.add.Tensor")
def add(ctx: Context, input: Any, other: Any) -> Ball:
    """Bound a sum of two: radii add up, and the sum is rounded once. A mask of −∞ kills entries."""
    return _sum(ctx, input, other, 1)


@rule("aten.sub.Tensor")
def sub(ctx: Context, input: Any, other: Any) -> Ball:
    """Bound a difference of two."""
    return _sum(ctx, input, other, -1)


def _sum(ctx: Context, input: Any, other: Any, sign: int) -> Ball:
    like = input.c if isinstance(input, Ball) else other.c
    a, b = ctx.lift(input, like), ctx.lift(other, like)
    if b.dead is not None and sign < 0:
        plain(b)
    c = torch.add(a.c, b.c, alpha=sign)
    g, lost = ctx.share(1), ctx.loss(1)
    r = c.abs() * g + (a.radius + b.radius) * (1 + g)
    alone, other_alone = wide(a, c), wide(b, c)
    n = (alone + other_alone) * (1 + g) + norm_above(c) * g + lost * c.shape[-1] ** 0.5
    ctx.watch_sum(c.abs() + a.radius + b.radius)
    masks = [x.dead for x in (a, b) if x.dead is not None]
    dead = None
    if masks:
        dead = masks[0].expand(c.shape) if len(masks) == 1 else masks[0] | masks[1]
        c = torch.where(dead, 0.0, c)
        return Ball(c, torch.where(dead, 0.0, outward(r + lost, 4)), dead=dead)
    return ball(c, outward(r + lost, 4), outward(n, 6))


def wide(x: Ball, like: Tensor) -> Tensor:
    """Return radii in the 2-norm of a ball that is repeated to a shape, √d times one of one entry."""
    d = like.shape[-1]
    n = x.spread if x.shape[-1] == d else x.spread * (d**0.5 * raised(1))
    return n


@rule("aten.mul.Tensor")
def mul(ctx: Context, input: Any, other: Any) -> Ball:
    """Bound a product, entry by entry: |a|r_b + r_a(|b| + r_b), rounded once."""
    like = input.c if isinstance(input, Ball) else other.c
    a, b = plain(ctx.lift(input, like)), plain(ctx.lift(other, like))
    if a.c.numel() > b.c.numel() or (a.c.numel() == b.c.numel() and a.r is not None):
        a, b = b, a  # a number or an exact tensor comes first
    c = a.c * b.c
    g = ctx.share(1)
    r = c.abs() * g + a.c.abs() * (b.radius * (1 + g))
    if a.r is not None:
        r = r + a.r * (b.size * (1 + g))
    ctx.watch(a.largest * b.largest, 1)
    r = outward(r + ctx.loss(1), 8)
    if a.r is not None or (a.c.numel() > 1 and a.shape[-1] > 1):
        return Ball(c, r)
    factor = a.c.abs()[..., 0]
    n = b.spread * factor * (1 + g) + norm_above(c) * g + ctx.loss(1) * c.shape[-1] ** 0.5
    return ball(c, r, outward(n, 8)) if b.shape == c.shape else Ball(c, r)


@rule("aten.div.Tensor")
def div(ctx: Context, input: Ball, other: Any) -> Ball:
    """Bound a quotient by a number, or by a ball away from zero: |â/b̂ − a/b| ≤ (r_a +
    |a/b|r_b)/min|b̂|.
    """
    a, b = plain(input), plain(ctx.lift(other, input.c))
    least = (b.c.abs() - b.radius) * (1 - 2.0**-50)
    c = a.c / b.c
    # Some kernels multiply by the reciprocal, which may underflow.
    g, lost = ctx.share(2), ctx.loss(2) * (1 + a.size)
    r = (a.radius + c.abs() * b.radius) / least.clamp_min(0.0)
    r = torch.where(least > 0, outward(r * (1 + g) + c.abs() * g + lost, 8), torch.inf)
    inverse = 1 / least.clamp_min(0.0).amin()
    ctx.watch(inverse)
    ctx.watch(c.abs() + r, 2)
    return Ball(c, r)


@rule("aten.neg.default")
def neg(ctx: Context, input: Ball) -> Ball:
    """Bound −x, which is exact."""
    return Ball(-plain(input).c, input.r, input.n)


@rule("aten.mean.dim")
def mean(ctx: Context, input: Ball, dim: list[int], keepdim: bool = False) -> Ball:
    """Bound a mean over one axis: a sum of k numbers, and a quotient."""
    x = plain(input)
    if len(dim) != 1 or x.c.ndim < 2 or dim[0] % x.c.ndim == ctx.axis:
        raise NotCoveredError(f"mean over the axes {dim}")
    last = axis(dim[0], x, "mean")
    k = x.shape[last]
    size = x.size.mean(last, keepdim)
    r = x.radius.mean(last, keepdim) + size * ctx.share(k + 2)
    ctx.watch(size * k, k + 2)
    return Ball(x.c.mean(last, keepdim), outward(r + ctx.loss(k + 2), k + 8))


@rule("aten.embedding.default")
def embedding(ctx: Context, weight: Ball, indices: Tensor, padding_idx: int = -1) -> Ball:
    """Look up rows, which is exact; ``padding_idx`` matters to training only."""
    if not isinstance(indices, Tensor) or prod(weight.shape) == 0:
        raise NotCoveredError("an embedding of numbers")
    r, n, dead = (None if t is None else t[indices] for t in (weight.r, weight.n, weight.dead))
    return Ball(weight.c[indices], r, n, dead=dead)


def parameter(ctx: Context, values: Tensor) -> Ball:
    """Return the ball of a stored tensor; a single number has one axis."""
    c = values.detach().to(torch.float64, copy=True)
    c = c if c.ndim else c[None]
    return Ball(c, read(ctx.arithmetic, c))
