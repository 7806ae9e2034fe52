"""Points to draw and to test at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def points_in_ball(count: int, dimension: int, radius: float, seed: int = 0) -> NDArray[np.float64]:
    """Return points ``(count, dimension)`` uniform in the ball, the same for the same seed."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, dimension))
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    distance = rng.random((count, 1)) ** (1 / max(dimension, 1))
    return np.asarray(points * (radius * distance / np.where(norms > 0, norms, 1)))
