"""What cutting ρ after m terms leaves out of the scores of one place.

x_t and x_s are independent for s ≠ t, and equal for s = t: equation (46) of Jiang and Li counts all τ²
pairs as independent, but the τ pairs on the diagonal see ρ − ρ_m at (x, x), which no L² norm controls.

    B_t² = Σ_{s≠t} E|ρ − ρ_m|²(x_t, x_s) + E|ρ − ρ_m|²(x_t, x_t)

With disjoint intervals I_t the first part is a sum over the blocks I_t × I_s.

How much of it a softmax passes on depends on its largest weight. A row of τ scores that vary by at most
Ω gives no token more than P = 1/(1 + (τ − 1)e^(−Ω)).
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from exactformer.theory.decomposition import Decomposition, evaluate
from exactformer.theory.quadrature import Intervals

Array = NDArray[np.float64]


def truncation_errors(intervals: Intervals, tau: int, kept: Decomposition) -> tuple[Array, float]:
    """Return B_t for every place and D, for ρ less the terms kept."""
    slack = kept.error * len(kept.u) ** 0.5
    diagonal = _diagonal_squares(kept)
    if len(intervals) == 1:
        off, on = (kept.remainder + slack) ** 2, float(diagonal @ kept.u.weights)
        return np.full(tau, np.sqrt((tau - 1) * off + on)), on**0.5
    place = np.empty(len(kept.u), dtype=int)
    for t, (low, high) in enumerate(intervals):
        place[(kept.u.nodes > low) & (kept.u.nodes < high)] = t
    mass = kept.u.weights * tau  # of every interval, 1
    squares = np.zeros(tau)
    for t in range(tau):
        rows = place == t
        difference = _difference(kept, rows)
        others = np.where(rows, 0.0, mass)
        squares[t] = mass[rows] @ (difference**2 @ others + diagonal[rows])
    return np.sqrt(squares) + slack * tau**0.5, float((mass @ diagonal / tau) ** 0.5)


def largest_weight(tau: int, kept: Decomposition, room: float) -> float:
    """Return P for scores between ρ and the terms kept, which may be off by ``room``.

    Rows are read on at most 512 nodes a side; what every other node changes is added.
    """
    rows, columns = (slice(None, None, -(-len(rule) // 512)) for rule in (kept.u, kept.v))
    exact = evaluate(kept.kernel, kept.u.nodes[rows], kept.v.nodes[columns])  # type: ignore[arg-type]
    cut = (kept.left_values[rows] * kept.singular_values) @ kept.right_values[columns].T
    fine, coarse = (
        max(float(np.ptp(scores[::step, ::step], axis=1).max()) for scores in (exact, cut))
        for step in (1, 2)
    )
    variation = 2 * fine - coarse + 2 * room
    return 1 / (1 + (tau - 1) * exp(-variation))


def _diagonal_squares(kept: Decomposition) -> Array:
    x = kept.u.nodes
    exact = np.asarray(kept.kernel(x, x), dtype=np.float64)  # type: ignore[misc]
    return np.asarray(
        (exact - (kept.left_values * kept.singular_values * kept.right_values).sum(1)) ** 2
    )


def _difference(kept: Decomposition, rows: NDArray[np.bool_]) -> Array:
    exact = evaluate(kept.kernel, kept.u.nodes[rows], kept.v.nodes)  # type: ignore[arg-type]
    return exact - (kept.left_values[rows] * kept.singular_values) @ kept.right_values.T
