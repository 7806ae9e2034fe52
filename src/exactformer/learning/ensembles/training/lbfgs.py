"""L-BFGS for many functions at once: each row has its own curvature pairs and its own step.

The direction is −H g, where H is the inverse Hessian that the last pairs s = θ' − θ, y = g' − g allow
(two-loop recursion); a pair with sᵀy not clearly positive is left out. The step t obeys the weak Wolfe
conditions, found by doubling and bisection (Lewis and Overton), which also holds where ReLUs kink:

    ℓ(θ + t d) ≤ ℓ(θ) + c₁ t gᵀd   (else t is too long),      g(θ + t d)ᵀd ≥ c₂ gᵀd   (else too short).

A row that finds no step to a lower loss forgets its pairs and tries steepest descent; if that fails
too, it has ended, and its weights stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]

_DECREASE, _CURVATURE, _TRIALS = 1e-4, 0.9, 25


@dataclass(frozen=True)
class _Point:
    """Weights (M, P) with their losses (M,) and gradients (M, P)."""

    weights: Tensor
    losses: Tensor
    gradient: Tensor

    def where(self, rows: Tensor, other: _Point) -> _Point:
        """Return this point at ``rows`` (M,) and the other elsewhere."""
        column = rows.unsqueeze(1)
        return _Point(
            torch.where(column, self.weights, other.weights),
            torch.where(rows, self.losses, other.losses),
            torch.where(column, self.gradient, other.gradient),
        )


@dataclass(frozen=True)
class Minimum:
    """Where every row got, and its loss after each step, (M, steps + 1)."""

    weights: Tensor
    losses: Tensor


@torch.no_grad()
def minimise(
    objective: Objective,
    weights: Tensor,
    steps: int,
    memory: int = 10,
    rows: Tensor | None = None,
    update: Callable[[int], None] = lambda done: None,
) -> Minimum:
    """Minimise M functions; ``objective`` maps (M, P) to losses (M,) and gradients (M, P).

    ``rows`` (M,) are those to minimise, all unless given; the others keep their weights.
    """
    here = _Point(weights, *_evaluated(objective, weights))
    running = here.losses.isfinite() & here.gradient.isfinite().all(dim=1)
    running = running if rows is None else running & rows
    curvature = _Curvature(weights, memory)
    losses = [here.losses]
    for done in range(1, steps + 1):
        direction = -curvature.solve(here.gradient)
        uphill = ~(_dot(direction, here.gradient) < 0)
        curvature.forget(uphill)
        fresh = ~curvature.known()
        length = here.gradient.norm(dim=1, keepdim=True)
        steepest = -here.gradient / length.clamp(min=1.0)
        direction = torch.where(fresh.unsqueeze(1), steepest, direction)
        there, moved = _search(objective, here, direction, running)
        curvature.add(there.weights - here.weights, there.gradient - here.gradient, moved)
        curvature.forget(~moved)
        running = running & (moved | ~fresh)
        here = there
        losses.append(here.losses)
        update(done)
        if not bool(running.any()):
            break
    return Minimum(here.weights, torch.stack(losses, dim=1))


class _Curvature:
    """The last pairs (s, y) of every row; 1/sᵀy is zero where a row has none."""

    def __init__(self, weights: Tensor, memory: int) -> None:
        self.s = weights.new_zeros(memory, *weights.shape)
        self.y = torch.zeros_like(self.s)
        self.inverse = weights.new_zeros(memory, len(weights))
        self.scale = weights.new_ones(len(weights))
        self.newest = -1

    def known(self) -> Tensor:
        """Return which rows have a pair."""
        return (self.inverse != 0).any(dim=0)

    def forget(self, rows: Tensor) -> None:
        """Drop all pairs of some rows."""
        self.inverse.masked_fill_(rows, 0)
        self.scale.masked_fill_(rows, 1)

    def add(self, s: Tensor, y: Tensor, rows: Tensor) -> None:
        """Keep a new pair in the place of the oldest, for ``rows`` where it shows curvature."""
        product, size = _dot(s, y), _dot(y, y)
        sound = rows & (product > torch.finfo(s.dtype).eps * _dot(s, s).sqrt() * size.sqrt())
        self.newest = (self.newest + 1) % len(self.s)
        column = sound.unsqueeze(1)
        self.s[self.newest] = torch.where(column, s, 0)
        self.y[self.newest] = torch.where(column, y, 0)
        self.inverse[self.newest] = torch.where(sound, 1 / product, 0)
        self.scale = torch.where(sound, product / size, self.scale)

    def solve(self, gradient: Tensor) -> Tensor:
        """Return H g by the two-loop recursion."""
        count = len(self.s)
        order = [(self.newest - age) % count for age in range(count)]
        q, shares = gradient.clone(), {}
        for k in order:
            shares[k] = (self.inverse[k] * _dot(self.s[k], q)).unsqueeze(1)
            q -= shares[k] * self.y[k]
        q *= self.scale.unsqueeze(1)
        for k in reversed(order):
            share = (self.inverse[k] * _dot(self.y[k], q)).unsqueeze(1)
            q += (shares[k] - share) * self.s[k]
        return q


def _search(
    objective: Objective, here: _Point, direction: Tensor, running: Tensor
) -> tuple[_Point, Tensor]:
    """Return the points reached, one step for every row, and which rows moved."""
    slope = _dot(here.gradient, direction)
    low, high = torch.zeros_like(slope), torch.full_like(slope, torch.inf)
    step, pending, best = torch.ones_like(slope), running, here
    for _ in range(_TRIALS):
        weights = torch.where(
            pending.unsqueeze(1), here.weights + step.unsqueeze(1) * direction, best.weights
        )
        trial = _Point(weights, *_evaluated(objective, weights))
        # Not "greater than": a loss that is not a number is too long a step, too.
        enough = trial.losses <= here.losses + _DECREASE * step * slope
        enough &= trial.gradient.isfinite().all(dim=1)
        flat = _dot(trial.gradient, direction) >= _CURVATURE * slope
        best = trial.where(pending & enough, best)
        low = torch.where(pending & enough, step, low)
        high = torch.where(pending & ~enough, step, high)
        pending = pending & ~(enough & flat)
        if not bool(pending.any()):
            break
        step = torch.where(high.isfinite(), (low + high) / 2, 2 * low)
    moved = best.losses < here.losses
    return best.where(moved, here), moved


def _evaluated(objective: Objective, weights: Tensor) -> tuple[Tensor, Tensor]:
    losses, gradient = objective(weights)
    return losses.clone(), gradient.clone()


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=1)
