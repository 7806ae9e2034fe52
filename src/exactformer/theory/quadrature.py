"""Nodes and weights on a union of intervals: composite Gauss–Legendre quadrature.

Every interval is cut into equal panels of at most 16 nodes. A smooth integrand converges faster than
any power; one with a kink keeps the order that its smoothness allows, and regains full speed where the
kink is an end of an interval: (0, 0.3), (0.3, 1) instead of (0, 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]
Intervals = tuple[tuple[float, float], ...]

PANEL = 16


@dataclass(frozen=True, eq=False)
class Rule:
    """∫ g ≈ Σ_i weights[i] · g(nodes[i]); nodes are (n,) or, of vectors, (n, d)."""

    nodes: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)


def intervals_of(domain: Any) -> Intervals:
    """Return one interval or a list of them as a tuple, in ascending order; they may touch.

    >>> intervals_of((0, 1)), intervals_of([(2, 3), (0, 1)])
    (((0.0, 1.0),), ((0.0, 1.0), (2.0, 3.0)))
    """
    try:
        ends = np.asarray(domain, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"a domain is an interval or a list of intervals, not {domain!r}"
        ) from None
    ends = ends[None, :] if ends.ndim == 1 else ends
    if ends.ndim != 2 or ends.shape[1:] != (2,) or len(ends) == 0 or not np.isfinite(ends).all():
        raise InputError(f"a domain is an interval or a list of intervals, not {domain!r}")
    ends = ends[np.argsort(ends[:, 0])]
    if (ends[:, 0] >= ends[:, 1]).any() or (ends[1:, 0] < ends[:-1, 1]).any():
        raise InputError(f"intervals need a positive length and must not overlap: {domain!r}")
    return tuple((float(low), float(high)) for low, high in ends)


def gauss_legendre(intervals: Iterable[tuple[float, float]], nodes_each: int) -> Rule:
    """Return the rule with ``nodes_each`` nodes (a power of two) on every interval."""
    size = min(PANEL, nodes_each)
    points, weights = np.polynomial.legendre.leggauss(size)
    nodes, masses = [], []
    for low, high in intervals:
        edges = np.linspace(low, high, nodes_each // size + 1)
        half = np.diff(edges)[:, None] / 2
        nodes.append(((edges[1:] + edges[:-1])[:, None] / 2 + half * points).ravel())
        masses.append((half * weights).ravel())
    return Rule(np.concatenate(nodes), np.concatenate(masses))


def cells(nodes: Array, interval: tuple[float, float]) -> Rule:
    """Return the rule that gives every node the cell of points nearest to it (samples at ``nodes``)."""
    low, high = interval
    if not ((np.diff(nodes) > 0).all() and low <= nodes[0] and nodes[-1] <= high):
        raise InputError(f"sample nodes must ascend within [{low:g}, {high:g}]")
    edges = np.concatenate([[low], (nodes[1:] + nodes[:-1]) / 2, [high]])
    return Rule(nodes, np.diff(edges))
