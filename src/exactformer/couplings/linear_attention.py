"""A linear target y = T x, T ≥ 0, by one attention head: equation (5) of Jiang & Li, without error.

Tokens know their places, x(s) ↦ (x(s), e_s) with the unit vector e_s ∈ R^τ, and n = m_h = d_v = τ, the
sizes of appendix C for τ = 32. Softmax weights are positive and sum to one, so the head can average
with A = T / row sums, and the outer network must multiply by the row sum z_t. Place and value share
the τ features:

    f̂(x(s), e_s) = e_s + x(s)·c               scores  f̂(t)ᵀ S f̂(s) = S[t, s],  if S c = 0 and cᵀS = 0.

Such a c is always there. Scores may be shifted by a constant in each row, S = L + r·1ᵀ with L = log A,
``FLOOR`` where A is zero. Let c be the vector with cᵀL = a·1ᵀ (τ − 1 conditions on τ numbers), and
r = −L c / Σc: then S c = 0, and cᵀS = (a + cᵀr)·1ᵀ = 0.

The head returns h_t = Σ_s A[t, s] f̂(s) = A[t, ·] + m_t·c, where m_t = Σ_s A[t, s] x(s) is in [0, 1].
Both parts are affine in h_t: m = (1ᵀh − 1) / Σc, A[t, ·] = h − m c. If every row of A is a corner of
their convex hull, each has a gate g_t, affine, 1 on its own row and at most 0 on the others, and

    y(t) = Σ_u z_u · relu(m + g_u − 1)          has one term that is not zero, z_t · m_t.

What is lost is the weight e^FLOOR of entries that should have none, and rounding.

A target with entries of both signs is no average, and equal rows cannot be told apart. With
n = d_v = 2τ features (e_s, x(s) e_s) and the weights A = (1 + I)/(τ + 1) of appendix A.2, the head
passes all inputs on, and gates pick the row:

    y(t) = Σ_u relu(l_u + 2B g_u − B) − B,      l_u = Σ_s T[u, s] x(s), within ±B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]
Layer = tuple[Array, Array]

FLOOR = -20.0
"""Logarithm of the weight that stands for none."""

SMALLEST_SUM = 0.01
"""Of c, a unit vector: scores are divided by its sum and lose as many digits."""

LARGEST_GATE = 1e4
"""Of a gate's weights: rows that differ by weights of no account only would need larger ones."""

TRIALS = 32
"""Weights below e^FLOOR are as good as none, so c may be had for several choices of them."""


@dataclass(frozen=True)
class LinearAttention:
    """Weights of equation (5) for tokens (x(s), e_s): layers (W, b) with relu between them."""

    inner: tuple[Layer, ...]
    query: Array
    key: Array
    value: Array
    outer: tuple[Layer, ...]

    def named(self, width: int) -> dict[str, Array]:
        """Return the weights by name, hidden layers filled up with zeros to ``width`` units."""
        hidden = max(len(bias) for net in (self.inner, self.outer) for _, bias in net[:-1])
        if width < hidden:
            raise InputError(f"the construction has {hidden} hidden units, and width is {width}")
        found = {"query": self.query, "key": self.key, "value": self.value}
        for name, net in (("inner", self.inner), ("outer", self.outer)):
            for k, (weight, bias) in enumerate(net):
                before = 0 if k == 0 else width - weight.shape[1]
                after = 0 if k == len(net) - 1 else width - len(bias)
                found[f"{name}.weights.{k}"] = np.pad(weight, ((0, after), (0, before)))
                found[f"{name}.biases.{k}"] = np.pad(bias, (0, after))
        return found


def linear_attention(matrix: ArrayLike, depth: int = 3) -> LinearAttention:
    """Return weights that compute y = T x on [0, 1]^τ; f̂ and F̂ have ``depth`` linear layers."""
    T = np.asarray(matrix, dtype=np.float64)
    if T.ndim != 2 or T.shape[0] != T.shape[1] or len(T) < 2 or not np.isfinite(T).all():
        raise InputError(
            f"a linear target of at least two tokens is a square matrix, not {T.shape}"
        )
    if depth < 2:
        raise InputError(f"the gates need a hidden layer: depth is at least 2, not {depth}")
    averages = T.min() >= 0 and T.sum(axis=1).min() > 0
    return (_average(T, depth) if averages else None) or _pass_on(T, depth)


def _average(T: Array, depth: int) -> LinearAttention | None:
    """Return None where a row is an average of others and has no gate, or no c of use is there."""
    tau, row_sums = len(T), T.sum(axis=1)
    with np.errstate(divide="ignore"):
        logarithms = np.log(T / row_sums[:, None])
    trials = (_null_vector(logarithms, trial) for trial in range(TRIALS))
    c, logarithms = max(trials, key=lambda found: abs(found[0].sum()))
    if abs(c.sum()) < SMALLEST_SUM:
        return None
    scores = logarithms - np.outer(logarithms @ c, np.ones(tau)) / c.sum()
    found = _gates(_softmax(scores))
    if found is None:
        return None
    gates, offsets = found
    # m = mean·h − 1/Σc and A[t, ·] = h − m c, so that m + g_u(A[t, ·]) − 1 is affine in h.
    mean = np.ones(tau) / c.sum()
    outer = np.outer(1 - gates @ c, mean) + gates
    constant = offsets - 1 - (1 - gates @ c) / c.sum()
    features = np.column_stack([c, np.eye(tau)])
    return LinearAttention(
        inner=(*_identities(tau + 1, depth - 1), (features, np.zeros(tau))),
        query=np.eye(tau),
        key=scores,
        value=np.eye(tau),
        outer=(
            (outer, constant),
            *_identities(tau, depth - 2),
            (row_sums[None], np.zeros(1)),
        ),
    )


def _null_vector(logarithms: Array, trial: int) -> tuple[Array, Array]:
    """Return c and L; entries of no weight lie at ``FLOOR``, in later trials up to 8 below it."""
    tau = len(logarithms)
    below = np.random.default_rng(trial).uniform(0, 8, (tau, tau)) if trial else 0.0
    logarithms = np.maximum(logarithms, FLOOR - below)
    return np.linalg.svd((logarithms @ _zero_sum_basis(tau)).T)[2][-1], logarithms


def _pass_on(T: Array, depth: int) -> LinearAttention:
    """Features (e_s, x(s) e_s): a hidden relu(x(s) + e_s − 1) is x(s) at its own place, else 0."""
    tau = len(T)
    eye, none = np.eye(tau), np.zeros((tau, tau))
    places = np.column_stack([np.zeros(tau), eye])
    values = np.column_stack([np.ones(tau), eye])
    scores = np.log1p(eye)  # weights 2 and 1: those of appendix A.2
    weights = (1 + eye) / (tau + 1)
    found = _gates(weights)
    assert found is not None, "every row of (1 + I)/(τ + 1) has its own largest entry"
    gates, offsets = found
    # The head returns the inputs times their weights; row u undoes those of its own query.
    reading = T / weights
    bound = np.abs(reading).sum(axis=1).max() * weights.max()
    first = np.column_stack([2 * bound * gates, reading])
    return LinearAttention(
        inner=(
            (np.vstack([places, values]), np.repeat([0.0, -1.0], tau)),
            *_identities(2 * tau, depth - 1),
        ),
        query=np.column_stack([eye, none]),
        key=np.column_stack([scores, none]),
        value=np.eye(2 * tau),
        outer=(
            (first, 2 * bound * offsets - bound),
            *_identities(tau, depth - 2),
            (np.ones((1, tau)), np.array([-bound])),
        ),
    )


def _gates(rows: Array) -> Layer | None:
    """Return g_u(a) = G[u]·a + offset[u], 1 at row u and ≤ 0 at the others, with small weights.

    Of all such functions that with the smallest largest weight is taken, by a linear program: it
    loses least to rounding.
    """
    from scipy.optimize import linprog

    count, size = rows.shape
    gates, offsets = np.empty((count, size)), np.empty(count)
    eye, column = np.eye(size), np.ones((size, 1))
    for u, row in enumerate(rows):
        others = np.delete(rows, u, axis=0)
        limits = np.block(
            [
                [others, np.ones((count - 1, 1)), np.zeros((count - 1, 1))],
                [eye, 0 * column, -column],
                [-eye, 0 * column, -column],
            ]
        )
        found = linprog(
            np.r_[np.zeros(size + 1), 1.0],
            A_ub=limits,
            b_ub=np.zeros(len(limits)),
            A_eq=np.r_[row, 1.0, 0.0][None],
            b_eq=[1.0],
            bounds=(None, None),
        )
        if found.x is None or found.x[-1] > LARGEST_GATE:
            return None
        gates[u] = found.x[:size]
        offsets[u] = 1 - gates[u] @ row  # the solver has it to seven digits only
    return gates, offsets


def _identities(size: int, count: int) -> tuple[Layer, ...]:
    """Hidden layers that pass non-negative numbers on."""
    return ((np.eye(size), np.zeros(size)),) * count


def _zero_sum_basis(size: int) -> Array:
    """Return orthonormal columns that span the vectors with sum zero."""
    return np.linalg.svd(np.eye(size) - 1 / size)[0][:, : size - 1]


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
