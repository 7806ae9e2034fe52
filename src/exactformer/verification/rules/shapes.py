"""Operators that move entries and change none. The first axis of what depends on the input stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from exactformer.verification.balls import Ball, outward, raised
from exactformer.verification.rules.attention import narrower
from exactformer.verification.rules.table import Context, NotCoveredError, rule

_ALL = 2**63 - 1


def moved(x: Ball, f: Callable[[Tensor], Tensor], n: Tensor | None, whole: bool) -> Ball:
    """Return a ball whose entries f moves; ``whole`` where tokens and rows of weights stay together."""
    return Ball(
        f(x.c),
        None if x.r is None else f(x.r),
        n,
        dead=None if x.dead is None else f(x.dead),
        unity=x.unity if whole else None,
    )


def first(ctx: Context, x: Ball, dim: int, what: str) -> int:
    """Return an axis from the front; the axis of the batch is refused."""
    front = dim % x.c.ndim
    if front == ctx.axis:
        raise NotCoveredError(f"{what} along the batch, which would mix inputs")
    return front


@rule("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
def view(ctx: Context, input: Ball, size: Any = None, shape: Any = None) -> Ball:
    """Reshape. Heads of a token are no longer than it; tokens put together are the root of a sum."""
    x, sizes = input, list(size if shape is None else shape)
    c = x.c.reshape(sizes)
    if not c.ndim:
        raise NotCoveredError("a single number")
    n, old, new = None, x.shape[-1], c.shape[-1]
    if x.n is None:
        pass
    elif new == old:
        n = x.n.reshape(c.shape[:-1])
    elif old % new == 0:
        n = x.n[..., None].expand(*x.n.shape, old // new).reshape(c.shape[:-1])
    elif new % old == 0:
        parts = x.n.reshape(*c.shape[:-1], new // old)
        n = torch.linalg.vector_norm(parts, dim=-1) * raised(new // old) + 1e-150
    return moved(x, lambda t: t.expand(x.shape).reshape(sizes), n, new == old)


@rule("aten.flatten.using_ints")
def flatten(ctx: Context, input: Ball, start_dim: int = 0, end_dim: int = -1) -> Ball:
    """Reshape several axes to one."""
    return view(ctx, input, list(input.c.flatten(start_dim, end_dim).shape))


@rule("aten.unflatten.int")
def unflatten(ctx: Context, input: Ball, dim: int, sizes: Any) -> Ball:
    """Reshape one axis to several."""
    front = dim % input.c.ndim
    shape = list(input.shape)
    return view(ctx, input, [*shape[:front], *sizes, *shape[front + 1 :]])


@rule("aten.transpose.int")
def transpose(ctx: Context, input: Ball, dim0: int, dim1: int) -> Ball:
    """Swap two axes; norms along the last one are norms along the last but one after its swap."""
    x, last = input, input.c.ndim - 1
    a, b = sorted((dim0 % x.c.ndim, dim1 % x.c.ndim))
    if b < last or a == b:
        n = None if x.n is None else x.n.transpose(a, b) if b < last else x.n
        return moved(x, lambda t: t.transpose(a, b), n, True)
    made = moved(x, lambda t: t.transpose(a, b), None, False)
    if a < last - 1:
        return made
    return Ball(made.c, made.r, x.across, across=x.spread, dead=made.dead)


@rule("aten.t.default")
def turn(ctx: Context, input: Ball) -> Ball:
    """Transpose a matrix."""
    return transpose(ctx, input, 0, 1)


@rule("aten.permute.default")
def permute(ctx: Context, input: Ball, dims: list[int]) -> Ball:
    """Reorder axes."""
    places = [d % input.c.ndim for d in dims]
    stays = places[-1] == input.c.ndim - 1
    n = input.n.permute(places[:-1]) if stays and input.n is not None else None
    return moved(input, lambda t: t.permute(places), n, stays)


@rule("aten.unsqueeze.default")
def unsqueeze(ctx: Context, input: Ball, dim: int) -> Ball:
    """Add an axis of length 1."""
    front = dim % (input.c.ndim + 1)
    inner = front < input.c.ndim
    n = input.n.unsqueeze(front) if inner and input.n is not None else None
    return moved(input, lambda t: t.unsqueeze(front), n, inner)


@rule("aten.squeeze.dim")
def squeeze(ctx: Context, input: Ball, dim: int) -> Ball:
    """Remove an axis of length 1."""
    front = first(ctx, input, dim, "squeeze")
    if input.c.ndim < 2:
        raise NotCoveredError("a single number")
    inner = front < input.c.ndim - 1
    n = input.n.squeeze(front) if inner and input.n is not None else None
    return moved(input, lambda t: t.squeeze(front), n, inner)


@rule("aten.expand.default")
def expand(ctx: Context, input: Ball, size: list[int]) -> Ball:
    """Repeat along axes of length 1."""
    c = input.c.expand(size)
    same = c.shape[-1] == input.shape[-1]
    n = input.n.expand(c.shape[:-1]) if same and input.n is not None else None
    return moved(input, lambda t: t.expand(size), n, same)


@rule("aten.slice.Tensor")
def cut(
    ctx: Context,
    input: Ball,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Ball:
    """Keep a range along an axis; a part of a token is no longer than it."""
    front = dim % input.c.ndim
    length = input.shape[front]
    if (start or 0) == 0 and (end is None or end >= length) and step == 1:
        return input
    front = first(ctx, input, dim, "a slice")
    inner = front < input.c.ndim - 1

    def f(t: Tensor) -> Tensor:
        made: Tensor = torch.ops.aten.slice.Tensor(t, front, start, end, step)
        return made

    n = input.n if input.n is None or not inner else f(input.n)
    return moved(input, f, n, inner)


@rule("aten.select.int")
def select(ctx: Context, input: Ball, dim: int, index: int) -> Ball:
    """Keep one place along an axis."""
    front = first(ctx, input, dim, "a selection")
    if input.c.ndim < 2:
        raise NotCoveredError("a single number")
    inner = front < input.c.ndim - 1
    n = input.n.select(front, index) if inner and input.n is not None else None
    return moved(input, lambda t: t.select(front, index), n, inner)


@rule("aten.split.Tensor")
def split(ctx: Context, input: Ball, split_size: int, dim: int = 0) -> list[Ball]:
    """Cut an axis into parts of one length."""
    length = input.shape[dim]
    starts = range(0, length, split_size)
    return [cut(ctx, input, dim, k, min(k + split_size, length)) for k in starts]


@rule("aten.chunk.default")
def chunk(ctx: Context, input: Ball, chunks: int, dim: int = 0) -> list[Ball]:
    """Cut an axis into so many parts."""
    return split(ctx, input, -(-input.shape[dim] // chunks), dim)


@rule("aten.cat.default")
def cat(ctx: Context, tensors: list[Ball], dim: int = 0) -> Ball:
    """Put tensors next to each other."""
    if any(not isinstance(t, Ball) or t.dead is not None for t in tensors):
        raise NotCoveredError("a tensor of whole numbers, or a mask, among those put together")
    front = first(ctx, tensors[0], dim, "a concatenation")
    r = None
    if any(t.r is not None for t in tensors):
        r = torch.cat([t.radius for t in tensors], front)
    inner = front < tensors[0].c.ndim - 1
    n = torch.cat([t.spread for t in tensors], front) if inner and r is not None else None
    return Ball(torch.cat([t.c for t in tensors], front), r, n)


@rule(
    "aten.contiguous.default",
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
)
def same(ctx: Context, input: Ball, memory_format: Any = None) -> Ball:
    """Return the tensor as it is; where it lies in memory changes no number."""
    return input


@rule("aten.dropout.default")
def dropout(ctx: Context, input: Ball, p: float, train: bool) -> Ball:
    """Return the tensor as it is, outside training."""
    if train:
        raise NotCoveredError("dropout in training mode; call .eval() first")
    return input


@rule(
    "aten.to.dtype", "aten._to_copy.default", "aten.to.dtype_layout", "aten.to.device", maker=True
)
def cast(
    ctx: Context,
    input: Ball | Tensor,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    memory_format: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
) -> Ball | Tensor:
    """Return the tensor in another number format, no narrower than that of the claim."""
    if isinstance(input, Ball):
        if dtype is not None:
            narrower(ctx, dtype)
        if dtype is None or not ctx.arithmetic.unit:
            return input
        # Even in the model's own format: what comes in may be wider, and is rounded then.
        g, lost, d = ctx.share(1), ctx.loss(1), input.shape[-1]
        r = outward(input.radius + input.size * g + lost, 2)
        n = outward(input.spread + input.length * g + lost * d**0.5, 4)
        off = None if input.unity is None else (input.unity * (1 + g) + g + d * lost) * raised(4)
        return Ball(input.c, torch.minimum(r, n[..., None]), n, dead=input.dead, unity=off)
    if dtype is None or not dtype.is_floating_point:
        return input if dtype is None else input.to(dtype)
    from exactformer.verification.rules.masks import exact

    if not bool((input.to(dtype).to(input.dtype) == input).all()):
        raise NotCoveredError(f"whole numbers that {str(dtype).removeprefix('torch.')} rounds")
    return exact(ctx, input.to(torch.float64))
