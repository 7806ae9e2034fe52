"""A small library of sequence-to-sequence maps: (tokens, dim) array to (tokens, dim) array.

Rows are tokens. A map is *equivariant* if it takes PX to P f(X) for every permutation P; a transformer
computes such maps without knowing positions, and no others. What is said of a map holds for three
tokens or more: of two, reversing is a permutation like any other, and equivariant. All functions also
take stacks (…, tokens, dim).

Lipschitz constants are in the Frobenius norm, ‖f(X) − f(Y)‖ ≤ L ‖X − Y‖, for n tokens:

    identity, sort, reverse   1       sorting does not increase the distance of two lists
    mean-subtract             1       a projection; 0 for n = 1
    copy-first                √n      one token is written n times
    cumulative-sum            1 / (2 sin(π / (4n + 2))), the norm of the triangle of ones
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]

SHARPNESS = 4.0
"""W_Kᵀ W_Q = 4·I of the attention that is meant where no weights are given."""

_SAME = 1e-12  # of the largest distance: what differs by rounding is as near


@dataclass(frozen=True)
class NamedMap:
    """A sequence map with what is known about it."""

    name: str
    function: Callable[[Array], Array]
    summary: str
    equivariant: bool
    """Whether f(PX) = P f(X); a map that is not needs positions."""
    continuous: bool = True
    lipschitz: Callable[[int], float] | None = None
    """L for n tokens, where it is known."""

    def __call__(self, x: Any) -> Array:
        """Evaluate at a (tokens, dim) array, or a stack of them."""
        return self.function(np.asarray(x, dtype=np.float64))


def softmax_attention(query: Any, key: Any, value: Any) -> Callable[[Array], Array]:
    """Return X ↦ softmax((X W_Qᵀ)(X W_Kᵀ)ᵀ) X W_Vᵀ, each row of the weights to the sum 1.

    ``query`` and ``key`` are m × d, ``value`` is d × d.
    """
    query, key, value = (_matrix(w, name) for name, w in _named(query, key, value))
    d = value.shape[0]
    if value.shape != (d, d) or query.shape != key.shape or query.shape[1] != d:
        shapes = ", ".join(f"{name} {w.shape}" for name, w in _named(query, key, value))
        raise InputError(f"attention takes query and key (m, d) and value (d, d), not {shapes}")

    def attention(x: Array) -> Array:
        if x.shape[-1] != d:
            raise InputError(f"these weights attend to tokens of dimension {d}, not {x.shape[-1]}")
        scores = (x @ query.T) @ np.swapaxes(x @ key.T, -1, -2)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray((weights / weights.sum(axis=-1, keepdims=True)) @ (x @ value.T))

    return attention


def sequence_map(name: str, weights: tuple[Any, Any, Any] | None = None) -> NamedMap:
    """Return a map by its name; ``weights`` are the query, key and value of softmax-attention."""
    if name not in SEQUENCE_MAPS:
        close = difflib.get_close_matches(name.lower(), SEQUENCE_MAPS, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else "."
        raise InputError(
            f"there is no sequence map {name!r}{hint} Known are {', '.join(SEQUENCE_MAPS)}"
        )
    found = SEQUENCE_MAPS[name]
    if weights is None:
        return found
    if name != "softmax-attention":
        raise InputError(f"weights belong to softmax-attention, not to {name}")
    summary = "softmax((X W_Qᵀ)(X W_Kᵀ)ᵀ) X W_Vᵀ with the weights given"
    return replace(found, function=softmax_attention(*weights), summary=summary)


def _named(query: Any, key: Any, value: Any) -> tuple[tuple[str, Any], ...]:
    return ("query", query), ("key", key), ("value", value)


def _matrix(weights: Any, name: str) -> Array:
    try:
        matrix = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} weights are not numbers") from None
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise InputError(f"the {name} weights must be a matrix of finite numbers")
    return matrix


def _plain_attention(x: Array) -> Array:
    one = np.eye(x.shape[-1])
    return softmax_attention(SHARPNESS * one, one, one)(x)


def _nearest(x: Array) -> Array:
    """Move every token to its nearest other one; to the mean of the nearest where there are several."""
    n = x.shape[-2]
    if n == 1:
        return x
    distance = np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1)
    room = _SAME * distance.max(axis=(-1, -2), keepdims=True)
    distance = np.where(np.eye(n, dtype=bool), np.inf, distance)
    near = distance <= distance.min(axis=-1, keepdims=True) + room
    return np.asarray((near / near.sum(axis=-1, keepdims=True)) @ x)


_MAPS = (
    NamedMap("identity", lambda x: x, "every token as it is", True, lipschitz=lambda n: 1.0),
    NamedMap(
        "sort",
        lambda x: np.sort(x, axis=-2),
        "every coordinate sorted over the tokens, ascending",
        equivariant=False,
        lipschitz=lambda n: 1.0,
    ),
    NamedMap(
        "reverse",
        lambda x: x[..., ::-1, :],
        "the tokens in the opposite order",
        equivariant=False,
        lipschitz=lambda n: 1.0,
    ),
    NamedMap(
        "mean-subtract",
        lambda x: x - x.mean(axis=-2, keepdims=True),
        "every token less the mean of all",
        equivariant=True,
        lipschitz=lambda n: 1.0 if n > 1 else 0.0,
    ),
    NamedMap(
        "softmax-attention",
        _plain_attention,
        f"softmax({SHARPNESS:g} XXᵀ) X: every token the mean of those like it",
        equivariant=True,
    ),
    NamedMap(
        "nearest-neighbour",
        _nearest,
        "every token moved to the nearest other one; it jumps where two are as near",
        equivariant=True,
        continuous=False,
    ),
    NamedMap(
        "cumulative-sum",
        lambda x: np.cumsum(x, axis=-2),
        "every token the sum of those up to it",
        equivariant=False,
        lipschitz=lambda n: 1 / (2 * sin(pi / (4 * n + 2))),
    ),
    NamedMap(
        "copy-first",
        lambda x: np.repeat(x[..., :1, :], x.shape[-2], axis=-2),
        "the first token at every place",
        equivariant=False,
        lipschitz=sqrt,
    ),
)

SEQUENCE_MAPS: dict[str, NamedMap] = {named.name: named for named in _MAPS}
"""Every map by its name."""
