"""Trajectories: times and noisy states, checked, with the size of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactformer.core.arrays import Array, reals
from exactformer.errors import InputError

# A longer trajectory is cut, so that the covariance of its equations stays a small matrix.
_LONGEST = 2000
_SHORTEST = 20
# A trajectory is also cut where a step is this many times the median one: no sum bridges a gap.
_GAP = 4
# Order of the differences that leave noise only: polynomials below it vanish.
_ORDER = 6


@dataclass(frozen=True)
class Trajectory:
    """States ``X`` (n, d) at increasing times ``t`` (n,)."""

    t: Array
    X: Array


@dataclass(frozen=True)
class Trajectories:
    """Pieces of trajectories of the same states, and the states' names."""

    pieces: list[Trajectory]
    names: list[str]

    @property
    def states(self) -> Array:
        """All states, (rows, d)."""
        return np.concatenate([piece.X for piece in self.pieces])


def given_trajectories(t: Any, X: Any) -> Trajectories:
    """Read one trajectory or lists of them; ``t`` may name a column of a DataFrame."""
    several = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) == 2
    if several and not isinstance(t, str) and (np.ndim(t[0]) != 1 or len(t) != len(X)):
        raise InputError(f"for {len(X)} trajectories t needs as many arrays of times")
    states = list(X) if several else [X]
    times = [t] * len(states) if isinstance(t, str) else list(t) if several else [t]
    pieces: list[Trajectory] = []
    names: list[str] | None = None
    for one, own in zip(times, states, strict=True):
        time, table, labels = _columns(one, own)
        if names is not None and labels != names:
            raise InputError(f"trajectories have different columns: {names} and {labels}")
        names = labels
        pieces += _checked(time, table)
    assert names is not None
    return Trajectories(pieces, names)


def noise_deviations(pieces: Sequence[Trajectory]) -> Array:
    """Estimate the standard deviation of each state's noise from differences of order six.

    Divided differences annihilate polynomials of degree five, so of states that are smooth from
    sample to sample they leave the noise; weights of norm one keep its size.
    """
    squares, count = 0.0, 0
    for piece in pieces:
        if len(piece.t) <= _ORDER:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(piece.t, _ORDER + 1)
        gaps = windows[:, :, None] - windows[:, None, :]
        gaps[:, np.arange(_ORDER + 1), np.arange(_ORDER + 1)] = 1.0
        weight = 1 / (gaps / np.abs(gaps).max(axis=(1, 2), keepdims=True)).prod(axis=2)
        weight /= np.linalg.norm(weight, axis=1, keepdims=True)
        states = np.lib.stride_tricks.sliding_window_view(piece.X, _ORDER + 1, axis=0)
        squares = squares + np.square(np.einsum("wk,wdk->wd", weight, states)).sum(axis=0)
        count += len(weight)
    size = np.sqrt(np.mean([np.square(piece.X).mean(axis=0) for piece in pieces], axis=0))
    return np.asarray(np.maximum(np.sqrt(squares / count), 1e-14 * np.maximum(size, 1e-300)))


def _columns(t: Any, X: Any) -> tuple[Array, Array, list[str]]:
    if isinstance(t, str):
        if not hasattr(type(X), "columns") or t not in X.columns:
            raise InputError(f"t={t!r} names a column, but X is not a table that has it")
        t, X = X[t], X.drop(columns=t)
    table = reals(X, "X")
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] == 0:
        raise InputError(f"X needs the shape (times, states); it has {table.shape}")
    numbered = [f"x{j + 1}" for j in range(table.shape[1])]
    labels = [str(n) for n in X.columns] if hasattr(type(X), "columns") else numbered
    if len(set(labels)) < len(labels):
        raise InputError(f"the columns of X need different names: {', '.join(labels)}")
    return reals(t, "t"), table, labels


def _checked(t: Array, X: Array) -> list[Trajectory]:
    if t.shape != (len(X),):
        raise InputError(f"t has the shape {t.shape}, X has {len(X)} rows; give one time per row")
    if not (np.isfinite(t).all() and np.isfinite(X).all()):
        raise InputError("t and X must be finite; cut the trajectory where states are missing")
    if len(t) < _SHORTEST:
        raise InputError(f"a trajectory of {len(t)} times is too short; the least is {_SHORTEST}")
    if (place := np.flatnonzero(np.diff(t) <= 0)).size:
        k = int(place[0])
        raise InputError(f"times must increase; t[{k + 1}] = {t[k + 1]:g} after t[{k}] = {t[k]:g}")
    steps = np.diff(t)
    unbroken = np.split(np.arange(len(t)), np.flatnonzero(steps > _GAP * np.median(steps)) + 1)
    kept = [rows for rows in unbroken if len(rows) >= _SHORTEST]
    if sum(map(len, kept)) < len(t) / 2:
        raise InputError(
            f"times are too uneven: gaps of more than {_GAP} median steps leave pieces of fewer than "
            f"{_SHORTEST} times. Interpolate the states at even times first"
        )
    return [
        Trajectory(t[rows], X[rows])
        for piece in kept
        for rows in np.array_split(piece, -(-len(piece) // _LONGEST))
    ]
