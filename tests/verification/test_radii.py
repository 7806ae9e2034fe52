"""Radii that come in go out: the worst points of a ball stay in the ball that a rule makes of it.

A ball has radii by entry and, independently, in the 2-norm of a token; points use up either, in the
direction of the gradient of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from exactformer.core.formats import REAL
from exactformer.verification.balls import Ball
from exactformer.verification.rules import RULES, Context

GENERATOR = torch.Generator()
WIDE = torch.float64


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=GENERATOR, dtype=WIDE)


def uniform() -> float:
    return float(torch.rand((), generator=GENERATOR))


def some(*shape: int) -> Ball:
    """Return a ball of any size, with norms that are less than its radii allow, or none."""
    size = 10 ** (4 * uniform() - 2)
    c = normal(*shape) * size
    r = normal(*shape).abs() * size * 10 ** (4 * uniform() - 3)
    n = r.norm(dim=-1) * (0.2 + 0.9 * uniform()) if uniform() < 0.7 else None
    return Ball(c, r, n)


def positive(*shape: int) -> Ball:
    """Return a ball away from zero."""
    return Ball(1 + normal(*shape).abs(), 0.9 * torch.rand(shape, generator=GENERATOR, dtype=WIDE))


Call = tuple[str, list[Any], Callable[..., Tensor]]
OPERATORS: dict[str, Callable[[], Call]] = {
    "linear": lambda: (
        "linear.default",
        [some(3, 4, 5), Ball(normal(6, 5)), Ball(normal(6))],
        functional.linear,
    ),
    "a computed weight": lambda: ("linear.default", [some(3, 5), some(6, 5)], functional.linear),
    "matmul": lambda: ("matmul.default", [some(3, 4, 5), some(3, 5, 4)], torch.matmul),
    "add": lambda: ("add.Tensor", [some(3, 4, 5), some(3, 1, 5)], torch.add),
    "add one number a token": lambda: ("add.Tensor", [some(3, 5), some(3, 1)], torch.add),
    "sub": lambda: ("sub.Tensor", [some(3, 5), some(3, 5)], torch.sub),
    "mul": lambda: ("mul.Tensor", [some(3, 5), some(3, 5)], torch.mul),
    "mul by a number a token": lambda: ("mul.Tensor", [some(3, 5), Ball(normal(3, 1))], torch.mul),
    "div": lambda: ("div.Tensor", [some(3, 5), positive(3, 5)], torch.div),
    "softmax": lambda: ("softmax.int", [some(3, 5), -1], torch.softmax),
    "attention": lambda: (
        "scaled_dot_product_attention.default",
        [some(2, 4, 5), some(2, 4, 5), some(2, 4, 5)],
        functional.scaled_dot_product_attention,
    ),
    "layer norm": lambda: (
        "layer_norm.default",
        [some(3, 5), [5], some(5), some(5)],
        functional.layer_norm,
    ),
    "layer norm of many": lambda: (
        "layer_norm.default",
        [some(3, 64), [64]],
        functional.layer_norm,
    ),
    "rms norm": lambda: ("rms_norm.default", [some(3, 5), [5], some(5), 1e-5], functional.rms_norm),
    "relu": lambda: ("relu.default", [some(3, 5)], torch.relu),
    "gelu": lambda: ("gelu.default", [some(3, 5)], functional.gelu),
    "silu": lambda: ("silu.default", [some(3, 5)], functional.silu),
    "tanh": lambda: ("tanh.default", [some(3, 5)], torch.tanh),
    "sigmoid": lambda: ("sigmoid.default", [some(3, 5)], torch.sigmoid),
    "cube": lambda: ("pow.Tensor_Scalar", [some(3, 5), 3], torch.pow),
    "rsqrt": lambda: ("rsqrt.default", [positive(3, 5)], torch.rsqrt),
    "mean": lambda: ("mean.dim", [some(3, 4, 5), [1]], torch.mean),
    "heads": lambda: ("view.default", [some(3, 4, 6), [3, 4, 2, 3]], torch.reshape),
    "tokens put together": lambda: ("view.default", [some(3, 4, 6), [3, 24]], torch.reshape),
    "another width": lambda: ("view.default", [some(3, 4, 6), [3, 3, 8]], torch.reshape),
    "transpose": lambda: ("transpose.int", [some(3, 4, 5), 1, 2], torch.transpose),
}


def worst(x: Ball, gradient: Tensor) -> list[Tensor]:
    """Return moves that radii and norms allow: along a gradient, by its signs, and at random."""
    cap = x.spread[..., None]
    along = gradient / gradient.norm(dim=-1, keepdim=True).clamp_min(1e-300) * cap
    moves = [gradient.sign() * x.radius, along, normal(*x.shape).sign() * x.radius]
    short = [m.clamp(-x.radius, x.radius) for m in moves]
    return [
        m * (cap / m.norm(dim=-1, keepdim=True).clamp_min(1e-300)).clamp_max(1 - 1e-13)
        for m in short
    ]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_the_worst_points_of_a_ball_stay_inside(name: str, count: int) -> None:
    GENERATOR.manual_seed(1)
    used = 0.0
    for _ in range(count):
        operator, args, function = OPERATORS[name]()
        ctx = Context(REAL, torch.device("cpu"), axis=0)
        made = RULES[f"aten.{operator}"](ctx, *args)
        points = [a.c.clone().requires_grad_(True) if isinstance(a, Ball) else a for a in args]
        value = function(*points)
        value.backward(normal(*value.shape))
        balls = [(k, a) for k, a in enumerate(args) if isinstance(a, Ball)]
        moves = {k: worst(a, points[k].grad) for k, a in balls}
        for way in range(3):
            for sign in (-1, 1):
                moved = list(args)
                for k, a in balls:
                    moved[k] = a.c + sign * moves[k][way]
                found = function(*moved)
                off = (found - made.c).abs() - 1e-13 * (found.abs() + made.c.abs())
                known = torch.isfinite(made.radius)
                assert bool(((off <= made.radius) | ~known).all())
                tokens = off.clamp_min(0.0).norm(dim=-1)
                assert bool(((tokens <= made.spread * (1 + 1e-12)) | ~known.all(-1)).all())
                used = max(
                    used, float(torch.where(known, off / made.radius.clamp_min(1e-300), 0.0).max())
                )
    assert used > 0.3
