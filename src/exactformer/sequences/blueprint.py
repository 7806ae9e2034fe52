"""A sequence-to-sequence transformer as data: n tokens of d numbers in, n tokens of d numbers out.

A sibling of :class:`Blueprint`. The theorem of Yun et al. has thousands of layers that differ in one
bias, so a stage may hold them as one wide layer whose units act one after another
(:attr:`FeedForward.successive`); :meth:`SequenceBlueprint.layers` yields every layer of the theorem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from exactformer.core.layers import Attention, BiasedHead, Layer
from exactformer.core.matrix import Matrix
from exactformer.core.words import plural
from exactformer.errors import InputError


@dataclass(frozen=True)
class SequenceEmbedding:
    """Token i is ``features · x_i + constant + positions[:, i]``."""

    features: Matrix
    """w × d."""
    constant: Matrix
    """w × 1."""
    positions: Matrix
    """w × n; zero where the model does not know positions."""


@dataclass(frozen=True)
class Stage:
    """A named run of layers: quantise, contextual mapping, reject, values."""

    name: str
    parts: tuple[Layer, ...]
    """Layers, or runs of them kept as one."""

    def __len__(self) -> int:
        return sum(1 if isinstance(part, Attention) else part.depth for part in self.parts)

    def layers(self) -> Iterator[Layer]:
        """Yield the stage's layers in order."""
        for part in self.parts:
            if isinstance(part, Attention):
                yield part
            else:
                yield from part.layers()


@dataclass(frozen=True)
class SequenceCounts:
    """What a sequence blueprint costs."""

    width: int
    layers: Mapping[str, int]
    """By stage."""
    weights: int
    """Entries that are not zero, each layer on its own."""
    key_bits: int
    """Bits of the largest key, an integer."""

    @property
    def depth(self) -> int:
        """Layers of all stages."""
        return sum(self.layers.values())


@dataclass(frozen=True)
class SequenceBlueprint:
    """Embedding, stages and readout over named rows of the stream.

    δ = 1/N is the side of a cell as a fraction of the support's. Keys, the integers that name a token
    in its context, are what :attr:`code` reads from a token after the contextual mapping.
    """

    tokens: int
    dim: int
    delta: Fraction
    form: str
    positional: bool
    support: tuple[Fraction, Fraction]
    realisation: str
    dimensions: tuple[str, ...]
    embedding: SequenceEmbedding
    stages: tuple[Stage, ...]
    readout: Matrix
    """d × w."""
    code: Matrix
    """1 × w: a token's key, in units of the integer grid."""
    largest_key: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """N = 1/δ, the cells along a side of the support."""
        return self.delta.denominator

    @property
    def width(self) -> int:
        """The number w of rows."""
        return len(self.dimensions)

    @property
    def key_bits(self) -> int:
        """Bits of the largest key."""
        return self.largest_key.bit_length()

    def stage(self, name: str) -> Stage:
        """Return a stage by its name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise InputError(f"there is no stage {name!r}; the stages are {names or 'none'}")

    def layers(self) -> Iterator[tuple[str, Layer]]:
        """Yield every layer with its name, e.g. ``contextual mapping 3``, in order of use."""
        for stage in self.stages:
            for k, layer in enumerate(stage.layers(), start=1):
                yield f"{stage.name} {k}", layer

    def matrices(self) -> Iterator[Matrix]:
        """Yield every matrix of embedding, stages and readout; layers in succession as one."""
        yield from _matrices(self.embedding)
        for stage in self.stages:
            for part in stage.parts:
                yield from _matrices(part)
        yield self.readout

    def counts(self) -> SequenceCounts:
        """Count layers by stage, non-zero weights and key bits."""
        weights = sum(matrix.nonzeros for matrix in self.matrices())
        layers = {stage.name: len(stage) for stage in self.stages}
        return SequenceCounts(self.width, layers, weights, self.key_bits)

    def facts(self) -> dict[str, Any]:
        """Return what a model of it is, as plain data."""
        counts = self.counts()
        return {
            "tokens": self.tokens,
            "dim": self.dim,
            "delta": str(self.delta),
            "support": [str(end) for end in self.support],
            "form": self.form,
            "realisation": self.realisation,
            "positional": self.positional,
            "width": counts.width,
            "layers": dict(counts.layers),
            "depth": counts.depth,
            "weights": counts.weights,
            "key_bits": counts.key_bits,
            "dimensions": list(self.dimensions),
        }

    def rows(self) -> dict[str, str]:
        """Return what a model of it is in words, a line for every name."""
        counts = self.counts()
        low, high = self.support
        layers = ", ".join(f"{name} {count:,}" for name, count in counts.layers.items())
        positions = "with positions" if self.positional else "permutation equivariant"
        return {
            "inputs": f"{plural(self.tokens, 'token')} of dimension {self.dim} in [{low}, {high})",
            "cells": f"{self.cells} per side, δ = {self.delta}",
            "transformer": f"{self.form} form, {self.realisation}, {positions}, "
            f"width {counts.width}",
            "layers": f"{counts.depth:,}: {layers}",
            "weights": f"{counts.weights:,} that are not zero; keys of {counts.key_bits} bits",
        }


def _matrices(layer: Layer | SequenceEmbedding) -> Iterator[Matrix]:
    if isinstance(layer, Attention):
        for head in layer.heads:
            yield from (head.query, head.key, head.value)
            if isinstance(head, BiasedHead):
                yield head.bias
    elif isinstance(layer, SequenceEmbedding):
        yield from (layer.features, layer.constant, layer.positions)
    else:
        yield from (layer.w1, layer.b1, layer.w2, layer.b2)
