"""Points of a domain at which a false claim would show: corners, ties, extrema of the features."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from exactformer.core.domain import Ball, Domain
from exactformer.polynomials.blueprint import Blueprint
from tests.adversary.interpreter import dense, is_inside

Array = NDArray[np.float64]

_LEVELS = sorted({np.cos(np.pi * k / s) for s in range(1, 7) for k in range(s + 1)} | {0.25, -0.25})
"""Roots and extrema of the Chebyshev polynomials of low degree."""


def float_points(blueprint: Blueprint, rng: random.Random, count: int = 96) -> Array:
    """Return offsets from the centre in units of the domain, N × d, all inside.

    Half of them give two tokens' features a pair of levels: values at which polynomials of the features
    are extreme or zero.
    """
    d = len(blueprint.variables)
    noise = np.random.default_rng(rng.getrandbits(64))
    units = np.array([float(blueprint.domain.extent(j)) for j in range(d)])
    directions = dense(blueprint.embedding.features) * units
    corners = np.array(list(product((-1.0, 0.0, 1.0), repeat=d)))
    free = noise.uniform(-1, 1, size=(count // 2, d))
    free[::2] /= np.maximum(np.abs(free[::2]).max(axis=1, keepdims=True), 1e-9)
    pairs = directions[noise.integers(0, len(directions), size=(count // 2, 2))]
    pairs[noise.random(len(pairs)) < 0.3, 1] = 0.0
    levels = noise.choice(_LEVELS, size=pairs.shape[:2]) * _reaches(pairs, blueprint.domain)
    with np.errstate(all="ignore"):
        wanted = np.linalg.pinv(pairs, rcond=1e-9) @ levels[:, :, None]
    wanted[~np.isfinite(wanted)] = 0.0  # features so small that nothing gives them a level
    points = np.vstack([corners, free, corners / 2, wanted[:, :, 0]])
    return into(points, blueprint.domain)


def into(offsets: Array, domain: Domain) -> Array:
    """Move offsets, in units of the domain, back inside it."""
    if isinstance(domain, Ball):
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        return np.asarray(offsets / np.maximum(lengths, 1))
    return np.clip(offsets, -1, 1)


def at(offsets: Array, blueprint: Blueprint) -> Array:
    """Return the points at offsets in units of the domain."""
    domain, d = blueprint.domain, len(blueprint.variables)
    centre = np.array([float(domain.offset(j)) for j in range(d)])
    return np.asarray(centre + offsets * [float(domain.extent(j)) for j in range(d)])


def exact_at(offset: Array, blueprint: Blueprint) -> list[Fraction]:
    """Return the rational point nearest to an offset that lies inside the domain."""
    domain = blueprint.domain
    for shrink in (0, 30, 20, 10):
        factor = 1 - Fraction(1, 2**shrink) if shrink else Fraction(1)
        point = [
            domain.offset(j)
            + Fraction(float(u)).limit_denominator(10**9) * factor * domain.extent(j)
            for j, u in enumerate(offset)
        ]
        if is_inside(domain, point):
            return point
    return [domain.offset(j) for j in range(len(offset))]


def exact_points(blueprint: Blueprint, rng: random.Random) -> list[list[Fraction]]:
    """Return rational points: the centre, one of the boundary, halves, and a fraction of the edge."""
    domain, d = blueprint.domain, len(blueprint.variables)
    edge = _sphere_point(rng, d) if isinstance(domain, Ball) else _face_point(rng, d)
    half = [Fraction(rng.choice((-1, 1)), 2) for _ in range(d)]
    local = [[Fraction(0)] * d, edge, half, [u / rng.randint(1, 4) for u in edge]]
    points = [
        [domain.offset(j) + u * domain.extent(j) for j, u in enumerate(offset)] for offset in local
    ]
    return [point for point in points if is_inside(domain, point)]


def _sphere_point(rng: random.Random, d: int) -> list[Fraction]:
    """Return a rational point of the unit sphere, by stereographic projection."""
    s = [Fraction(rng.randint(-4, 4), rng.randint(1, 4)) for _ in range(max(d - 1, 0))]
    square = sum((c * c for c in s), Fraction(0))
    point = [2 * c / (1 + square) for c in s] + [(1 - square) / (1 + square)]
    rng.shuffle(point)
    return point[:d]


def _face_point(rng: random.Random, d: int) -> list[Fraction]:
    point = [Fraction(rng.randint(-4, 4), 4) for _ in range(d)]
    if d:
        point[rng.randrange(d)] = Fraction(rng.choice((-1, 1)))
    return point


def _reaches(rows: Array, domain: Domain) -> Array:
    """Return the largest features on the domain, rows being in its units."""
    order = 2 if isinstance(domain, Ball) else 1
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.norm(rows, ord=order, axis=-1))
