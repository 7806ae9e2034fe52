"""Points to draw and to test at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exactformer.core.domain import Ball
from exactformer.polynomials.blueprint import Blueprint


def points_in_ball(count: int, dimension: int, radius: float, seed: int = 0) -> NDArray[np.float64]:
    """Return points ``(count, dimension)`` uniform in the ball, the same for the same seed."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, dimension))
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    distance = rng.random((count, 1)) ** (1 / max(dimension, 1))
    return np.asarray(points * (radius * distance / np.where(norms > 0, norms, 1)))


def points_in_domain(count: int, blueprint: Blueprint, seed: int = 0) -> NDArray[np.float64]:
    """Return points uniform in the ball or box a blueprint is for, the same for the same seed."""
    domain, axes = blueprint.domain, range(len(blueprint.variables))
    centre = np.array([float(domain.offset(j)) for j in axes])
    if isinstance(domain, Ball):
        return centre + points_in_ball(count, len(axes), float(domain.radius), seed)
    extent = np.array([float(h) for h in domain.half_widths])
    return centre + np.random.default_rng(seed).uniform(-extent, extent, (count, len(axes)))
