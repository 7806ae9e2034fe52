"""An adversary for rounding bounds: points of the ball where a float module errs as much as it can."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.algebra import Polynomial
from exactformer.polynomials.blueprint import Blueprint
from tests.cases.margins import ball_points

Points = NDArray[np.float64]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def into_ball(points: Points, radius: float, dtype: torch.dtype) -> Points:
    """Round points to the format and make sure that they lie in the ball."""
    for shrink in (1.0, 1 - 2.0**-9, 1 - 2.0**-6):
        rounded = torch.from_numpy(points * shrink).to(dtype).double().numpy()
        norms = np.linalg.norm(rounded / radius, axis=1)
        points = np.where((norms <= 1)[:, None], points * shrink, points)
        if np.all(norms <= 1):
            return np.asarray(rounded)
    return np.asarray(rounded[norms <= 1])


def zeros_of(p: Polynomial, starts: Points) -> Points:
    """Points near zeros of Q, where terms cancel: bisection along segments with a change of sign."""
    low, high = starts[:-1].copy(), starts[1:].copy()
    with np.errstate(all="ignore"):
        signs = np.sign(p.evaluate(low)) * np.sign(p.evaluate(high))
        low, high = low[signs < 0], high[signs < 0]
        for _ in range(60):
            middle = (low + high) / 2
            same = np.sign(p.evaluate(middle)) == np.sign(p.evaluate(low))
            low = np.where(same[:, None], middle, low)
            high = np.where(same[:, None], high, middle)
    return np.asarray(low)


def errors(
    module: Callable[[Tensor], Tensor], p: Polynomial, points: Points, dtype: torch.dtype
) -> NDArray[np.float64]:
    """|computed − Q|, with Q in extended precision: good enough to climb by."""
    computed = module(torch.from_numpy(points).to(dtype)).double().numpy()
    return np.asarray(
        np.abs(computed.astype(np.longdouble) - p.evaluate(points.astype(np.longdouble)))
    ).astype(np.float64)


def exact_error(
    module: Callable[[Tensor], Tensor], p: Polynomial, points: Points, dtype: torch.dtype
) -> Fraction:
    """The largest |computed − Q| over the points, exactly."""
    computed = module(torch.from_numpy(points).to(dtype)).double()
    assert bool(computed.isfinite().all())
    return max(
        abs(Fraction(y) - p.at(x)) for x, y in zip(points.tolist(), computed.tolist(), strict=True)
    )


def worst_error(
    module: Callable[[Tensor], Tensor],
    blueprint: Blueprint,
    p: Polynomial,
    dtype: torch.dtype,
    *,
    count: int = 100,
    rounds: int = 10,
    seed: int = 0,
) -> Fraction:
    """Climb from boundary, directions, sums of directions and zeros of Q; return the worst error."""
    rng = np.random.default_rng(seed)
    radius = float(blueprint.radius)
    starts = ball_points(rng, blueprint, count)
    starts = np.vstack([starts, zeros_of(p, rng.permutation(starts))])
    points = into_ball(starts, radius, dtype)
    keep = max(10, count // 4)
    size = errors(module, p, points, dtype)
    for step in range(rounds):
        best = np.argsort(size)[::-1][:keep]
        points, size = points[best], size[best]
        scale = 0.3 * 0.4**step + float(torch.finfo(dtype).eps)
        children = np.repeat(points, 4, axis=0)
        children = children + rng.normal(size=children.shape) * scale * radius
        children[::4] = np.repeat(points, 4, axis=0)[::4] * (1 + rng.normal(scale=0.1 * scale))
        norms = np.linalg.norm(children / radius, axis=1, keepdims=True)
        children = into_ball(children / np.maximum(norms, 1), radius, dtype)
        points = np.vstack([points, children])
        size = np.concatenate([size, errors(module, p, children, dtype)])
    best = np.argsort(size)[::-1][:keep]
    return exact_error(module, p, points[best], dtype)
