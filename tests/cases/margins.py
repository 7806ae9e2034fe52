"""The selection margin as it is: the smallest found by descent over the ball, not a bound."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.literal import LiteralTransformer


def margins_at(module: LiteralTransformer, x: Tensor) -> list[Tensor]:
    """Own score less the best other score: for every block and head a tensor (points, tokens)."""
    scores: list[Tensor] = []

    def record(name: str, tensor: Tensor) -> None:
        if name.endswith("scores"):
            scores.append(tensor)

    module(x, record=record)
    hidden = torch.diag(torch.full((len(module.features),), -torch.inf, dtype=torch.float64))
    return [s.diagonal(dim1=-2, dim2=-1) - (s + hidden).amax(dim=-1) for s in scores]


def ball_points(rng: np.random.Generator, blueprint: Blueprint, count: int) -> NDArray[np.float64]:
    """Points of the ball: random, on the boundary, and along the directions and their sums."""
    d, radius = len(blueprint.variables), float(blueprint.radius)
    F = np.zeros((blueprint.tokens, d))
    for i, j, value in blueprint.embedding.features:
        F[i, j] = float(value)
    pairs = rng.integers(0, blueprint.tokens, size=(count, 2))
    signs = rng.choice([-1.0, 1.0], size=(count, 2))
    aligned = F[pairs[:, 0]] * signs[:, :1] + F[pairs[:, 1]] * signs[:, 1:]
    directions = np.vstack([rng.normal(size=(count, d)), aligned, F, -F])
    norms = np.linalg.norm(directions, axis=1, keepdims=True)
    sphere = directions / np.where(norms > 0, norms, 1)
    inside = sphere[:count] * rng.random((count, 1)) ** (1 / max(d, 1))
    return np.vstack([sphere, inside, np.zeros((1, d))]) * radius * (1 - 1e-15)


def smallest_margins(
    blueprint: Blueprint, count: int = 40, steps: int = 60, seed: int = 0
) -> list[float]:
    """Return, for every block and head, the smallest margin found on the ball."""
    radius, module = float(blueprint.radius), LiteralTransformer(blueprint)
    starts = torch.from_numpy(ball_points(np.random.default_rng(seed), blueprint, count))
    heads = sum(len(block.attention.heads) for block in blueprint.blocks)
    found = []
    for h in range(heads):
        x = starts.clone()
        best = torch.inf
        for step in range(steps):
            x.requires_grad_(True)
            margin = margins_at(module, x)[h].amin(dim=-1)
            best = min(best, float(margin.detach().min()))
            (gradient,) = torch.autograd.grad(margin.sum(), x)
            length = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True).clamp_min(1e-300)
            with torch.no_grad():
                x = x - gradient / length * radius * 0.3 * 0.88**step
                x = x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) / radius).clamp_min(1)
        found.append(best)
    return found
