"""The parts of a transformer, as data.

A stream holds n tokens of w named dimensions; written as a matrix, row i is token i. Every layer
adds to the stream (residual), nothing is normalised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise

from exactformer.core.matrix import Matrix
from exactformer.errors import InputError


class Rule(StrEnum):
    """How a row of scores becomes a row of weights."""

    ONE_HOT_MAX = "one-hot maximum"
    """Keep the largest score as it is, set the others to 0 (Fang); the first of equals."""
    HARD_MAX = "hard maximum"
    """Weight 1 on the largest score; equals share it (softmax at temperature 0)."""
    SOFTMAX = "softmax"
    """exp(score / temperature), normalised."""


@dataclass(frozen=True)
class PiecewiseLinear:
    """φ(t) = slope·t + intercept by pieces; piece i holds on [breaks[i − 1], breaks[i])."""

    breaks: tuple[Fraction, ...]
    """Ascending; the first piece reaches down to −∞, the last up to ∞."""
    pieces: tuple[tuple[Fraction, Fraction], ...]
    """(slope, intercept), one more than there are breaks."""

    @classmethod
    def of(
        cls,
        breaks: Sequence[Fraction | int],
        pieces: Sequence[tuple[Fraction | int, Fraction | int]],
    ) -> PiecewiseLinear:
        """Build from any rationals."""
        lines = tuple((Fraction(slope), Fraction(intercept)) for slope, intercept in pieces)
        return cls(tuple(map(Fraction, breaks)), lines)

    @classmethod
    def of_relus(cls, relus: Sequence[tuple[Fraction, Fraction, Fraction]]) -> PiecewiseLinear:
        """Build Σ c·relu(s·t + o) from its (s, o, c).

        >>> PiecewiseLinear.of_relus([(Fraction(1), Fraction(0), Fraction(1))])(Fraction(-2))
        Fraction(0, 1)
        """
        breaks = sorted({-offset / slope for slope, offset, _ in relus if slope})
        middles = [(a + b) / 2 for a, b in pairwise(breaks)]
        inside = (breaks[0] - 1, *middles, breaks[-1] + 1) if breaks else (Fraction(0),)
        pieces = []
        for t in inside:
            on = [(slope, offset, c) for slope, offset, c in relus if slope * t + offset > 0]
            slope = sum((slope * c for slope, _, c in on), Fraction(0))
            pieces.append((slope, sum((offset * c for _, offset, c in on), Fraction(0))))
        return cls.of(breaks, pieces)

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.breaks) + 1 or list(self.breaks) != sorted(
            set(self.breaks)
        ):
            raise InputError("breaks must ascend, with one piece more than there are breaks")

    def __call__(self, t: Fraction) -> Fraction:
        """Return φ(t), exactly.

        >>> step = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
        >>> step(Fraction(-1, 3)), step(Fraction(0))
        (Fraction(0, 1), Fraction(1, 1))
        """
        slope, intercept = self.pieces[bisect_right(self.breaks, t)]
        return slope * t + intercept

    @property
    def name(self) -> str:
        """The name of a function that has one: ``relu`` or ``identity``."""
        for name, function in ACTIVATIONS.items():
            if function == self:
                return name
        raise InputError(f"{self} has no name; {' and '.join(ACTIVATIONS)} have")


RELU = PiecewiseLinear.of((0,), ((0, 0), (1, 0)))
IDENTITY = PiecewiseLinear.of((), ((1, 0),))
ACTIVATIONS = {"relu": RELU, "identity": IDENTITY}
"""Functions that files and other programs know by name."""


@dataclass(frozen=True)
class Selection:
    """A rule and, for softmax, its temperature."""

    rule: Rule
    temperature: Fraction = Fraction(1)


@dataclass(frozen=True)
class Embedding:
    """Input to tokens: token i is ``constant[i]`` with ``(features · x)_i`` added at ``dimension``."""

    features: Matrix
    """F, n × d: one direction a row."""
    dimension: int
    constant: Matrix
    """n × w: positions and the constant one."""


@dataclass(frozen=True)
class Head:
    """Scores ⟨W_Q z_i, W_K z_j⟩; the tokens' W_V z_j are mixed with the selected weights."""

    query: Matrix
    key: Matrix
    value: Matrix


@dataclass(frozen=True)
class BiasedHead(Head):
    """A head whose query has a bias: scores ⟨W_Q z_i + b_Q, W_K z_j⟩."""

    bias: Matrix


@dataclass(frozen=True)
class Attention:
    """z_i + Σ_heads Σ_j weight_ij W_V z_j."""

    heads: tuple[Head, ...]
    selection: Selection


@dataclass(frozen=True)
class FeedForward:
    """z + W_2 φ(W_1 z + b_1) + b_2 with any piecewise-linear φ, jumps included.

    Biases are one-column matrices. A run of layers with few units each may be kept as one of all of
    them: its first units act first, and b_2 belongs to the first layer.
    """

    w1: Matrix
    b1: Matrix
    w2: Matrix
    b2: Matrix
    activation: PiecewiseLinear = RELU
    successive: int | None = None
    """Units of each layer of a run; ``None`` where this is one layer."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.w1.rows // self.successive if self.successive else 1

    def layers(self) -> Iterator[FeedForward]:
        """Yield the layers of a run in order, each by itself."""
        if self.successive is None:
            yield self
            return
        h, w = self.successive, self.w1.columns
        for m in range(self.depth):
            own = list(enumerate(range(m * h, (m + 1) * h)))
            yield FeedForward(
                Matrix(h, w, {(k, j): v for k, s in own for j, v in self.w1.by_row.get(s, ())}),
                Matrix.of(h, 1, {(k, 0): self.b1[s, 0] for k, s in own}),
                Matrix(w, h, {(i, k): v for k, s in own for i, v in self.w2.by_column.get(s, ())}),
                Matrix(w, 1, {}) if m else self.b2,
                self.activation,
            )


Layer = Attention | FeedForward


@dataclass(frozen=True)
class Block:
    """One encoder block: attention, then feed-forward."""

    attention: Attention
    feed_forward: FeedForward


@dataclass(frozen=True)
class Readout:
    """Stream to one output: ⟨β, Z⟩ + b."""

    beta: Matrix
    """n × w."""
    bias: Fraction
