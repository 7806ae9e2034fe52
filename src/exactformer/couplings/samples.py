"""Functions of a coupling at points: what they are, where they are sampled, and what is checked."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from exactformer.core.pointwise import check_pointwise
from exactformer.couplings.interpolant import Floats, Interval, Knots
from exactformer.errors import InputError

Function = Callable[[Any], Any]

SAMPLES = 2**14
"""Points at which the range of f is looked for, at least; and at least sixteen per piece."""


class Decomposed(Protocol):
    """What is needed of a decomposition: σ_1 ≥ σ_2 ≥ …, and φ_k, ψ_k as functions."""

    @property
    def singular_values(self) -> Floats:
        """σ, (r,)."""

    def left(self, u: Any) -> Floats:
        """Return φ at points: (…) to (…, r)."""

    def right(self, v: Any) -> Floats:
        """Return ψ at points: (…) to (…, r)."""


def shared(decomposition: Decomposed, head_dim: int) -> tuple[Function, Function]:
    """Return √σ_k φ_k and √σ_k ψ_k for k ≤ head_dim; beyond the rank they are zero."""
    root = np.sqrt(decomposition.singular_values[:head_dim])
    missing = head_dim - len(root)

    def phi(u: Any) -> Floats:
        return _filled(root * decomposition.left(u)[..., : len(root)], missing)

    def psi(v: Any) -> Floats:
        return _filled(root * decomposition.right(v)[..., : len(root)], missing)

    return phi, psi


def value_box(values: Floats) -> tuple[Interval, ...]:
    """Return the least intervals that hold the columns of ``values``; a point is widened by 1/2."""
    box = []
    for column in values.T:
        low, high = Fraction(float(column.min())), Fraction(float(column.max()))
        box.append((low, high) if low < high else (low - Fraction(1, 2), high + Fraction(1, 2)))
    return tuple(box)


def range_points(knots: Knots) -> Floats:
    """Return the points at which the range of f is looked for."""
    return knots.refined(max(16, -(-SAMPLES // len(knots))))


def tabulated(function: Function, points: Floats, name: str) -> Floats:
    """Return what a function gives at ``points`` as ``(points, n)`` float64."""
    try:
        found = np.asarray(function(points.copy()))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must take NumPy arrays; of one of the shape {points.shape} it says: {error}. "
            "np.vectorize makes a function of single numbers one of arrays"
        ) from error
    if found.dtype.kind not in "biuf" or found.ndim not in (1, 2) or len(found) != len(points):
        raise InputError(
            f"{name} must give a real number, or a row of them, at each of {len(points)} points; it "
            f"gave the shape {found.shape} of {found.dtype}"
        )
    values = found.astype(np.float64).reshape(len(points), -1)
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(values))[0, 0]
        raise InputError(f"{name} is not finite at {points[where]}")
    check_pointwise(values, lambda k: function(points[k : k + 1].copy()), name)
    return values


def _filled(values: Floats, missing: int) -> Floats:
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
