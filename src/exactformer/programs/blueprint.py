"""Blueprints of programs: a plain transformer with exact weights, and what its directions hold.

A token's row of the stream is its embedding plus that of its position. Every layer adds what its heads
read, then what its ReLUs compute. Nothing is normalised. With a beginning token, row 0 of the stream is
that token's, and the tokens of the input follow.

A *register* is a set of directions that holds one node of the program: where the node has a value, the
stream has the code of the value there. Registers are what a construction intends. A proof believes none
of them before it has shown it from the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exactformer.core.layers import FeedForward, Head, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.words import plural


@dataclass(frozen=True)
class ProjectedHead(Head):
    """A head whose values are few: W_V z_j are mixed, and W_O writes the mixture to the stream."""

    output: Matrix
    """W_O, width × values."""


@dataclass(frozen=True)
class ProgramLayer:
    """Heads side by side, then one feed-forward layer of ReLUs."""

    heads: tuple[ProjectedHead, ...]
    feed_forward: FeedForward


@dataclass(frozen=True)
class Register:
    """Directions that hold a node, or one term of a width; without a node, what is the same everywhere.

    A width of a union of conjunctions has a register for each: ``term`` is its number.
    """

    node: int | None
    term: int | None
    directions: tuple[int, ...]
    steps: Matrix
    """A row per value of the node, in order: by how much its code differs from that of the value
    before, the first from zero. Where there is a beginning token, a last row has what it holds there.
    """


@dataclass(frozen=True)
class ProgramBlueprint:
    """A transformer for sequences of tokens by number."""

    tokens: Matrix
    """Embeddings, a row per token of the vocabulary; the last row is the beginning token's."""
    positions: Matrix
    """Embeddings of positions, the beginning token's first."""
    layers: tuple[ProgramLayer, ...]
    readout: Matrix
    """A row per value of the output, or one row for a number."""
    selection: Selection
    causal: bool
    beginning: bool
    """Whether sequences begin with a token of their own."""
    registers: tuple[Register, ...]
    dimensions: tuple[str, ...]
    """What the directions are called; no proof reads it."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Directions of the stream."""
        return self.tokens.columns

    @property
    def max_length(self) -> int:
        """The most tokens of an input."""
        return self.positions.rows - self.beginning

    @property
    def sizes(self) -> dict[str, int]:
        """Layers, and the largest number of heads, head rows and hidden units of any."""
        heads = [head for layer in self.layers for head in layer.heads]
        return {
            "layers": len(self.layers),
            "heads": max((len(layer.heads) for layer in self.layers), default=0),
            "width": self.width,
            "head width": max((max(h.key.rows, h.value.rows) for h in heads), default=0),
            "hidden": max((layer.feed_forward.w1.rows for layer in self.layers), default=0),
        }

    def facts(self) -> dict[str, Any]:
        """Return what a model of it is, as plain data."""
        return {
            "tokens": self.max_length,
            "vocabulary": self.tokens.rows - self.beginning,
            "causal": self.causal,
            "beginning": self.beginning,
            "selection": str(self.selection.rule),
            "sizes": self.sizes,
            "dimensions": list(self.dimensions),
        }

    def rows(self) -> dict[str, str]:
        """Return what a model of it is in words, a line for every name."""
        sizes = self.sizes
        order = "causal" if self.causal else "every position sees all"
        begins = "with" if self.beginning else "without"
        return {
            "inputs": f"1 to {plural(self.max_length, 'token')} of "
            f"{self.tokens.rows - self.beginning}, {order}, {begins} a beginning token",
            "transformer": f"{plural(sizes['layers'], 'layer')} of width {sizes['width']}, at most "
            f"{plural(sizes['heads'], 'head')} and {plural(sizes['hidden'], 'ReLU')} each; "
            f"{self.selection.rule}",
        }
