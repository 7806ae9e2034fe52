"""The parts of a transformer, as data.

A stream holds n tokens of w named dimensions; written as a matrix, row i is token i. Every layer
adds to the stream (residual), nothing is normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from exactformer.blueprint.matrix import Matrix


class Rule(StrEnum):
    """How a row of scores becomes a row of weights."""

    ONE_HOT_MAX = "one-hot maximum"
    """Keep the largest score as it is, set the others to 0 (Fang); the first of equals."""
    HARD_MAX = "hard maximum"
    """Weight 1 on the largest score; equals share it (softmax at temperature 0)."""
    SOFTMAX = "softmax"
    """exp(score / temperature), normalised."""


class Activation(StrEnum):
    """What a feed-forward unit does to its input."""

    RELU = "relu"
    IDENTITY = "identity"


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
class Attention:
    """z_i + Σ_heads Σ_j weight_ij W_V z_j."""

    heads: tuple[Head, ...]
    selection: Selection


@dataclass(frozen=True)
class FeedForward:
    """z + W_2 σ(W_1 z + b_1) + b_2; biases are one-column matrices."""

    w1: Matrix
    b1: Matrix
    w2: Matrix
    b2: Matrix
    activation: Activation = Activation.RELU


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
