"""Linear operators that turn a trajectory into equations for its law, with little noise.

Both ways write x' = f(x) as rows D x = S f(P x), with matrices for one trajectory of n times:

- weak form: multiplied by a test function φ_k that vanishes at the ends of its support, and integrated
  by parts, −∫ φ_k' x dt = ∫ φ_k f(x) dt. No derivative of data is taken. P is the identity;
- smoothing: a cubic is fitted to the neighbours of each time; P has its values, D its slopes, and S
  picks the times at which the equation is written down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from exactformer.learning.dynamics.trajectories import Trajectory

# φ(s) = (1 − s²)^_SMOOTH on [−1, 1].
_SMOOTH = 8
# Test functions are at least this share of their half-width apart, and not more than so many.
_STEP, _MOST = 0.25, 400
_CUBIC = 3


@dataclass(frozen=True)
class Operators:
    """``D`` and ``S`` (rows, n), and ``P`` (n, n)."""

    D: sparse.csr_array
    S: sparse.csr_array
    P: sparse.csr_array


def weak_form(trajectory: Trajectory, width: int) -> Operators | None:
    """Return the weak form for test functions that reach ``width`` samples to either side.

    None where the trajectory has no room for two of them.
    """
    t, n = trajectory.t, len(trajectory.t)
    half = width * (t[-1] - t[0]) / (n - 1)
    if t[-1] - t[0] < 2.5 * half:
        return None
    count = min(_MOST, max(2, int((t[-1] - t[0] - 2 * half) / (_STEP * half)) + 1))
    centres = np.linspace(t[0] + half, t[-1] - half, count)
    s = (t[None, :] - centres[:, None]) / half
    inside = np.clip(1 - s**2, 0, None)
    step = np.gradient(t)
    step[[0, -1]] /= 2
    # Values of order one, whatever the unit of time: rows are ∫ φ dt = 1.
    area = (inside**_SMOOTH * step).sum(axis=1, keepdims=True)
    slope = -2 * _SMOOTH * s * inside ** (_SMOOTH - 1) / half
    identity = sparse.csr_array(sparse.eye_array(n))
    return Operators(
        sparse.csr_array(-slope * step / area),
        sparse.csr_array(inside**_SMOOTH * step / area),
        identity,
    )


def smoothing(trajectory: Trajectory, width: int) -> Operators | None:
    """Return values and slopes of cubics through ``width`` neighbours to either side."""
    t, n = trajectory.t, len(trajectory.t)
    if n < 2 * width + 2 or 2 * width + 1 <= _CUBIC + 1:
        return None
    values, slopes = sparse.lil_array((n, n)), sparse.lil_array((n, n))
    for i in range(n):
        start = min(max(i - width, 0), n - 2 * width - 1)
        rows = slice(start, start + 2 * width + 1)
        scale = t[rows][-1] - t[rows][0]
        u = (t[rows] - t[i]) / scale
        weights = (1 - (np.abs(u) / (np.abs(u).max() * (1 + 1 / width))) ** 3) ** 3
        inverse = np.linalg.pinv(np.vander(u, _CUBIC + 1, increasing=True) * weights[:, None])
        values[i, rows] = inverse[0] * weights
        slopes[i, rows] = inverse[1] * weights / scale
    places = np.arange(width // 2, n - width // 2, max(1, width // 2, n // _MOST))
    picked = sparse.csr_array(sparse.eye_array(n))[places]
    derivative = sparse.csr_array(slopes)
    return Operators(
        sparse.csr_array(derivative[places]), sparse.csr_array(picked), sparse.csr_array(values)
    )
