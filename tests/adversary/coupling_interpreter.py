"""Equation (5) from the numbers of a blueprint alone, by the definition of a piecewise-linear function.

    v(x) = Σ_j v_j hat_j(x),   hat_j(x) = relu(1 − max(0, z_1, …, z_d) − max(0, −z_1, …, −z_d)),

z_i = (x_i − t_{j,i})/h_i, for points moved into the box first: beyond it the function is constant.
Nothing of the package computes here; long floats hold what overflows or cancels in float64.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant
from exactformer.targets import Coupling
from exactformer.theory import Decomposition

Array = Any
LONG = np.longdouble


class Interpreter:
    """The functions of one blueprint, in one number format."""

    def __init__(self, blueprint: CouplingBlueprint, dtype: Any = np.float64) -> None:
        self.tau, self.head_dim = blueprint.tau, blueprint.head_dim
        self.dtype = dtype
        self.is_placed = blueprint.positions is not None
        places = blueprint.positions or (0,) * self.tau
        self.positions = np.array([_number(e, dtype) for e in places])
        knots = blueprint.features.knots
        each = knots.pieces + 1
        tables = blueprint.features.values.astype(dtype)
        self.segments = [
            Grid([interval], knots.pieces, tables[k * each : (k + 1) * each], dtype)
            for k, interval in enumerate(knots.intervals)
        ]
        outer = blueprint.outer
        if isinstance(outer, Interpolant):
            box, pieces = list(outer.knots.intervals), outer.knots.pieces
        else:
            box, pieces = list(outer.box), outer.pieces
        self.outer = Grid(box, pieces, outer.values.astype(dtype), dtype)

    def rows(self, x: Array) -> Array:
        """Return ĥ for sequences (n, τ): (n, τ, rows)."""
        tokens = np.asarray(x).astype(self.dtype) + self.positions
        columns = [
            self.segments[t if self.is_placed else 0](tokens[:, t, None]) for t in range(self.tau)
        ]
        return np.stack(columns, axis=1)

    def split(self, x: Array) -> tuple[Array, Array, Array]:
        """Return queries, keys and values."""
        rows, m = self.rows(x), self.head_dim
        return rows[..., :m], rows[..., m : 2 * m], rows[..., 2 * m :]

    def scores(self, x: Array) -> Array:
        """Return (n, τ, τ)."""
        query, key, _ = self.split(x)
        return (query[:, :, None, :] * key[:, None, :, :]).sum(axis=-1)

    def __call__(self, x: Array) -> Array:
        """Return Ĥ: (n, τ)."""
        query, key, values = self.split(x)
        scores = (query[:, :, None, :] * key[:, None, :, :]).sum(axis=-1)
        mean = (weights(scores)[..., None] * values[:, None]).sum(axis=2)
        flat = mean.reshape(-1, mean.shape[-1])
        return self.outer(flat)[:, 0].reshape(mean.shape[:-1])


class Grid:
    """A piecewise-linear function on a box."""

    def __init__(self, box: Any, pieces: int, values: Array, dtype: Any) -> None:
        self.low = np.array([_number(low, dtype) for low, _ in box])
        self.high = np.array([_number(high, dtype) for _, high in box])
        self.step = np.array([_number((high - low) / pieces, dtype) for low, high in box])
        self.places = np.array(list(product(range(pieces + 1), repeat=len(box))))
        self.values = values

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d): (n, functions)."""
        moved = np.clip(np.asarray(x), self.low, self.high)
        z = ((moved - self.low) / self.step)[:, None, :] - self.places
        hats = np.maximum(0, 1 - np.maximum(0, z.max(axis=-1)) - np.maximum(0, (-z).max(axis=-1)))
        return hats @ self.values


def weights(scores: Array) -> Array:
    """Return softmax over the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def target_scores(target: Coupling, tokens: Array) -> Array:
    """Return ρ(x(t), x(s)) for encoded tokens, one pair at a time as the definition has it."""
    u, v = np.broadcast_arrays(tokens[..., :, None], tokens[..., None, :])
    return np.asarray(target.rho(u, v)) + 0.0


def target_outputs(target: Coupling, tokens: Array) -> Array:
    """Return H for encoded tokens (n, τ): (n, τ)."""
    p, values = weights(target_scores(target, tokens)), np.asarray(target.f(tokens))
    if values.ndim == tokens.ndim:
        return np.asarray(target.F((p * values[:, None, :]).sum(axis=-1)))
    return np.asarray(target.F((p[..., None] * values[:, None]).sum(axis=2)))


class Truncation:
    """ρ_m(u, v) = Σ_{k ≤ m} σ_k φ_k(u) ψ_k(v), by Nyström's formula."""

    def __init__(self, target: Coupling, decomposition: Decomposition, terms: int) -> None:
        self.rho, self.sigma = target.rho, decomposition.singular_values[:terms]
        self.u, self.v = decomposition.u, decomposition.v
        self.left = decomposition.left_values[:, :terms]
        self.right = decomposition.right_values[:, :terms]
        self.kernel = decomposition.kernel

    def scores(self, tokens: Array) -> Array:
        """Return ρ_m(x(t), x(s)) for encoded tokens (n, τ)."""
        points = tokens.ravel()
        rho = self.kernel if self.kernel is not None else self.rho
        ahead = np.asarray(rho(points[:, None], self.v.nodes[None, :]))
        back = np.asarray(rho(self.u.nodes[None, :], points[:, None]))
        phi = ahead @ (self.v.weights[:, None] * self.right) / self.sigma
        psi = back @ (self.u.weights[:, None] * self.left) / self.sigma
        shape = (*tokens.shape, -1)
        query, key = (phi * self.sigma).reshape(shape), psi.reshape(shape)
        return query @ key.swapaxes(-1, -2)


def _number(value: Any, dtype: Any) -> Any:
    """Return a rational, rounded once even to a long float."""
    if dtype is np.float64:
        return float(value)
    head = float(value)
    return LONG(head) + LONG(float(value - type(value)(head)))
