"""What the three tasks of Jiang & Li, appendix B.1, have in common: equation (8), part by part.

    H_t(x) = F( Σ_s A_ts f(x(s)) ),        A = the attention that is meant, rows are queries t.

A task answers directly (an arg min, a weighted mean, a mean over indices), and it names the parts
A, f, F of which equation (8) is made; that both agree is a theorem about each task.

None of the three attentions is a softmax: each has weights that are exactly zero, which no finite
score gives. What a model of equation (5) can do is come close: *scores* of finite rank whose softmax
is right among the tokens that count, and leaks the little mass

    ℓ_t = Σ_{s: A_ts = 0} softmax(scores)_ts

to the others. So softmax = (1 − ℓ) A + ℓ B with B some other weights, and where F does not stretch
distances the error is at most ℓ_t · max_s |f(x(s)) − Σ_r A_tr f(x(r))|.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class AttentionTask(Protocol):
    """A task on sequences x of shape (..., τ, ·)."""

    @property
    def tau(self) -> int:
        """The number of tokens."""

    @property
    def token_dim(self) -> int:
        """The size of an encoded token."""

    @property
    def output_dim(self) -> int:
        """The size of an answer."""

    @property
    def rank(self) -> int:
        """The rank of the scores, constants along a row aside: softmax does not see those."""

    def sample(self, count: int, seed: int) -> Array:
        """Draw inputs."""

    def __call__(self, x: Any) -> Array:
        """Answer directly: (..., τ, output_dim)."""

    def encode(self, x: Any) -> Array:
        """Return the tokens a model sees: with positions where the task cannot do without."""

    def attention(self, x: Any) -> Array:
        """Return A: (..., τ, τ), rows are queries."""

    def values(self, x: Any) -> Array:
        """Return f at every token."""

    def readout(self, h: Array) -> Array:
        """Return F, which never stretches a distance."""

    def scores(self, x: Any, sharpness: float) -> Array:
        """Return scores of finite rank whose softmax tends to A with the sharpness."""


def attend(task: AttentionTask, x: Any, weights: Array) -> Array:
    """Return F(Σ_s weights_ts f(x(s))): equation (8), and with ``task.attention(x)`` the answer."""
    return task.readout(weights @ task.values(x))


def soft_attention(task: AttentionTask, x: Any, sharpness: float) -> Array:
    """Return the softmax of the task's scores: what attention of finite rank makes of A."""
    scores = task.scores(x, sharpness)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def soft_error_bound(task: AttentionTask, x: Any, sharpness: float) -> Array:
    """Return, for every token, how far `attend` by `soft_attention` can be from the answer."""
    meant, values = task.attention(x), task.values(x)
    leaked = np.where(meant == 0, soft_attention(task, x, sharpness), 0.0).sum(axis=-1)
    centre = meant @ values
    reach = np.linalg.norm(values[..., None, :, :] - centre[..., :, None, :], axis=-1).max(axis=-1)
    return np.asarray(leaked * reach)
