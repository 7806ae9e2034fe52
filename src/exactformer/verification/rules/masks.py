"""Tensors made of nothing, and masks: constants of truth values, of 0 and −∞, or of very negative
numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from exactformer.verification.balls import Ball
from exactformer.verification.rules.table import Context, NotCoveredError, rule


def exact(ctx: Context, values: Tensor) -> Ball:
    """Return a ball of whole numbers, of the lowest number of the format, and of −∞."""
    values = values if values.ndim else values[None]
    dead = values == -torch.inf
    c = torch.where(dead, 0.0, values.to(torch.float64))
    whole = (c == c.round()) & (c.abs() * (ctx.arithmetic.unit or 2.0**-24) <= 1)
    lowest = torch.zeros_like(dead)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        lowest = lowest | (c == torch.finfo(dtype).min)
    if not bool((whole | lowest).all()):
        raise NotCoveredError(
            "a constant with digits after the point; make it a buffer of the module"
        )
    return Ball(c, dead=dead if bool(dead.any()) else None)


@rule("aten.full.default", "aten.new_full.default", "aten.full_like.default", maker=True)
def full(
    ctx: Context,
    input: Any = None,
    size: Any = None,
    fill_value: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Ball | Tensor:
    """Fill a tensor with one value."""
    if isinstance(fill_value, Ball):
        raise NotCoveredError("a fill value that is computed")
    sizes = list(input.shape) if size is None else list(size)
    value = torch.full(sizes, fill_value, dtype=dtype, device=ctx.device)
    return exact(ctx, value) if value.dtype.is_floating_point else value


def _constant(value: float) -> Any:
    def make(
        ctx: Context,
        input: Any = None,
        size: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
        memory_format: Any = None,
    ) -> Ball | Tensor:
        sizes = list(input.shape) if size is None else list(size)
        made = torch.full(sizes, value, dtype=dtype or torch.float32, device=ctx.device)
        return exact(ctx, made) if made.dtype.is_floating_point else made

    return make


for _name, _value in (("zeros", 0.0), ("ones", 1.0)):
    for _form in ("{}", "new_{}", "{}_like"):
        rule(f"aten.{_form.format(_name)}.default", maker=True)(_constant(_value))


@rule("aten.scalar_tensor.default", maker=True)
def single(
    ctx: Context,
    s: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Ball | Tensor:
    """Make a tensor of one number."""
    return full(ctx, size=[1], fill_value=s, dtype=dtype)


def _triangle(upper: bool) -> Any:
    def make(ctx: Context, input: Ball | Tensor, diagonal: int = 0) -> Ball | Tensor:
        cut = torch.triu if upper else torch.tril
        if not isinstance(input, Ball):
            return cut(input, diagonal)
        if ctx.axis is not None and ctx.axis >= input.c.ndim - 2:
            raise NotCoveredError("a triangle along the batch, which would mix inputs")
        dead = None if input.dead is None else cut(input.dead, diagonal)
        return Ball(cut(input.c, diagonal), cut(input.radius, diagonal), dead=dead)

    return make


rule("aten.triu.default")(_triangle(True))
rule("aten.tril.default")(_triangle(False))


@rule("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(ctx: Context, condition: Tensor, input: Any, other: Any) -> Ball:
    """Choose between two tensors, by a constant of truth values."""
    if not isinstance(condition, Tensor) or condition.dtype != torch.bool:
        raise NotCoveredError("a choice by numbers")
    a, b = _number(ctx, input), _number(ctx, other)
    c = torch.where(condition, a.c, b.c)
    dead = None
    if a.dead is not None or b.dead is not None:
        none = torch.zeros((1,), dtype=torch.bool, device=c.device)
        dead = torch.where(
            condition, none if a.dead is None else a.dead, none if b.dead is None else b.dead
        )
    r = None
    if a.r is not None or b.r is not None:
        r = torch.where(condition, a.radius, b.radius).expand(c.shape)
    return Ball(c, r, dead=None if dead is None else dead.expand(c.shape))


def _number(ctx: Context, value: Any) -> Ball:
    if isinstance(value, Ball):
        return value
    if value == -torch.inf:
        return exact(ctx, torch.full((1,), -torch.inf, dtype=torch.float64, device=ctx.device))
    return ctx.lift(value, torch.zeros(1, dtype=torch.float64, device=ctx.device))


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(ctx: Context, input: Ball, mask: Tensor, value: Any) -> Ball:
    """Put one value where a constant of truth values says so."""
    return where(ctx, mask, value, input)
