"""Centre of gravity by segments, with prediction tokens (Jiang & Li 2023, equations 57–62).

A sequence is a row of segments, each a prediction token followed by point masses (x_s, m_s):

    x_pred  (x₁, m₁)  (x₂, m₂)  (x₃, m₃)   x_pred  (x₄, m₄)  (x₅, m₅)
    y =  |x̄|   |x₁|      |x₂|      |x₃|      |x̄'|    |x₄|      |x₅|

with x̄ = Σ m_s x_s / Σ m_s over the segment: A is the normalised mass on the row of a prediction token
and the identity elsewhere, f(x, m) = x, F = |·|. Here x_pred is the token (0, 0): mass 0 is outside
the masses, [lightest, 1].

**A token must know its segment.** Whether the first prediction token attends to the seventh token
depends on whether another one stands between them; a score ρ(x(t), x(s)) does not see that, even with
positions. The text says nothing of it. So `encode` gives a token, next to its place, the number of
its segment, both as unit vectors: x(t) ↦ Ax(t) + e(t) of section 4.1, with an e that also depends on
how the sequence is cut. Then, with g the number of the segment, the scores

    prediction token t:   log m_s − λ(g_s − g_t)²,     −λ for the prediction token itself
    any other t:          −λ(s − t)²

are right within A's support, and off it lower by λ up to the masses' logarithms. Their rank is 4,
whatever τ: keys (log m − λg², g, s, s²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from exactformer.errors import InputError
from exactformer.targets.tasks import Array


@dataclass(frozen=True)
class CentreOfGravity:
    """Sequences of τ tokens in segments of at least ``shortest`` points; x is (..., τ, dim + 1).

    Points are uniform in [−1, 1]^dim, masses in [lightest, 1], and every way of cutting τ tokens
    into segments is as likely as any other.
    """

    tau: int = 10
    dim: int = 2
    shortest: int = 2
    lightest: float = 0.1

    def __post_init__(self) -> None:
        if self.dim < 1 or self.shortest < 1 or not 0 < self.lightest <= 1:
            raise InputError(
                f"dim={self.dim}, shortest={self.shortest}, lightest={self.lightest}: the first two "
                "must be at least 1, the last in (0, 1]"
            )
        if self.tau <= self.shortest:
            raise InputError(
                f"{self.tau} tokens hold no prediction token with {self.shortest} points"
            )

    @property
    def most_segments(self) -> int:
        """The number of segments that fit."""
        return self.tau // (self.shortest + 1)

    @property
    def token_dim(self) -> int:
        """A token is its point, its mass, the unit vectors of its segment and of its place."""
        return self.dim + 1 + self.most_segments + self.tau

    @property
    def output_dim(self) -> int:
        """An answer is a norm."""
        return 1

    @property
    def rank(self) -> int:
        """Keys (log m − λg², g, s, s²)."""
        return 4

    def sample(self, count: int, seed: int, lengths: tuple[int, ...] | None = None) -> Array:
        """Draw inputs; ``lengths``, the points of each segment, fixes how they are cut."""
        generator = np.random.default_rng(seed)
        points = generator.uniform(-1, 1, (count, self.tau, self.dim))
        masses = generator.uniform(self.lightest, 1, (count, self.tau, 1))
        starts = self._starts(count, generator) if lengths is None else self._cut(count, lengths)
        drawn = np.concatenate([points, masses], axis=-1)
        return np.where(starts[..., None], 0.0, drawn)

    def __call__(self, x: Any) -> Array:
        """Return the norms of the centres of gravity, and of every other point."""
        x = self._checked(x)
        points, masses, segment = x[..., :-1], x[..., -1], self.segments(x)
        centre = np.zeros_like(points)
        for g in range(self.most_segments):
            weight = np.where(segment == g, masses, 0.0)[..., None]
            total = np.maximum(weight.sum(axis=-2, keepdims=True), np.finfo(float).tiny)
            mean = (weight * points).sum(axis=-2, keepdims=True) / total
            centre = np.where((segment == g)[..., None], mean, centre)
        places = np.where(masses[..., None] == 0, centre, points)
        return np.asarray(np.linalg.norm(places, axis=-1, keepdims=True))

    def encode(self, x: Any) -> Array:
        """Return tokens that know their segment and their place."""
        x = self._checked(x)
        segment = np.eye(self.most_segments)[self.segments(x)]
        place = np.broadcast_to(np.eye(self.tau), (*x.shape[:-2], self.tau, self.tau))
        return np.concatenate([x, segment, place], axis=-1)

    def attention(self, x: Any) -> Array:
        """Return normalised masses within the segment for prediction tokens, else the identity."""
        x = self._checked(x)
        masses, segment = x[..., -1], self.segments(x)
        together = segment[..., :, None] == segment[..., None, :]
        weights = np.where(together, masses[..., None, :], 0.0)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return np.where(masses[..., None] == 0, weights, np.eye(self.tau))

    def values(self, x: Any) -> Array:
        """Return f(x, m) = x."""
        return self._checked(x)[..., :-1]

    def readout(self, h: Array) -> Array:
        """Return F(h) = |h|."""
        return np.asarray(np.linalg.norm(h, axis=-1, keepdims=True))

    def scores(self, x: Any, sharpness: float) -> Array:
        """Return the scores of rank 4; λ is the ``sharpness``."""
        x = self._checked(x)
        masses, segment, place = x[..., -1], self.segments(x), np.arange(self.tau)
        light = np.log(np.where(masses == 0, np.exp(-sharpness), masses))[..., None, :]
        apart = (segment[..., :, None] - segment[..., None, :]) ** 2
        away = (place[:, None] - place) ** 2
        pooled = light - sharpness * apart
        return np.where(masses[..., None] == 0, pooled, -sharpness * away)

    def segments(self, x: Any) -> Any:
        """Return the number of every token's segment, from 0: prediction tokens have no mass."""
        return np.cumsum(np.asarray(x)[..., -1] == 0, axis=-1) - 1

    def _starts(self, count: int, generator: np.random.Generator) -> Any:
        """Cut at random; the number of ways to cut what is left makes all ways as likely."""
        least, ways = self.shortest + 1, [1]
        for n in range(1, self.tau + 1):
            ways.append(sum(ways[n - part] for part in range(least, n + 1)))
        starts = np.zeros((count, self.tau), dtype=bool)
        left = np.full(count, self.tau)
        for n in range(self.tau, 0, -1):
            rows = np.flatnonzero(left == n)
            if len(rows):
                parts = np.arange(least, n + 1)
                likely = np.array([ways[n - part] for part in parts]) / ways[n]
                starts[rows, self.tau - n] = True
                left[rows] -= generator.choice(parts, size=len(rows), p=likely)
        return starts

    def _cut(self, count: int, lengths: tuple[int, ...]) -> Any:
        needed = sum(lengths) + len(lengths)
        if needed != self.tau or min(lengths, default=0) < self.shortest:
            raise InputError(
                f"segments of {lengths} points with a prediction token each are {needed} tokens, not "
                f"{self.tau}; and none may be shorter than {self.shortest}"
            )
        starts = np.zeros((count, self.tau), dtype=bool)
        starts[:, np.cumsum([0, *(length + 1 for length in lengths[:-1])])] = True
        return starts

    def _checked(self, given: Any) -> Array:
        x: Array = np.asarray(given, dtype=np.float64)
        if x.shape[-2:] != (self.tau, self.dim + 1):
            raise InputError(
                f"inputs are (..., {self.tau}, {self.dim + 1}), a point and its mass for each token, "
                f"not {x.shape}"
            )
        if (x[..., 0, -1] != 0).any() or (x[..., -1, -1] == 0).any() or (x[..., -1] < 0).any():
            raise InputError(
                "masses are positive and 0 marks a prediction token: a sequence begins with one and "
                "ends with a point"
            )
        if self.segments(x).max(initial=0) >= self.most_segments:
            raise InputError(f"more than {self.most_segments} segments: some are too short")
        return x
