"""Layers with hard attention in Coq's notation, for ``HardAttention.v`` of the library."""

from __future__ import annotations

from collections.abc import Iterable

from exactformer.coq.text import listed, matrix, rational, vector
from exactformer.core.layers import RELU, BiasedHead, FeedForward, Head, PiecewiseLinear
from exactformer.core.matrix import Matrix

IMPORTS = """\
From Coq Require Import QArith String List.
From Exactformer Require Import {files}.
Import ListNotations.
Open Scope Q_scope.
Open Scope model_scope.
"""


def bias(column: Matrix) -> str:
    """Return a matrix of one column as a dense vector."""
    return f"(dense {vector(column)})" if column.entries else "[]"


def attention(heads: Iterable[Head], output: Iterable[Matrix | None], indent: int) -> str:
    """Return an attention layer, given what writes the mixture of each head, if anything does."""
    space = " " * (indent + 2)
    both = zip(heads, output, strict=True)
    parts = [_head(head, written, indent + 3) for head, written in both]
    return f"Attention\n{space}{listed(parts, indent + 2, lines=True)}"


def _head(head: Head, output: Matrix | None, indent: int) -> str:
    space = "\n" + " " * (indent + 2)
    added = bias(head.bias) if isinstance(head, BiasedHead) else "[]"
    query, key, value = (matrix(m, indent + 2) for m in (head.query, head.key, head.value))
    written = "None" if output is None else f"(Some {matrix(output, indent + 2)})"
    return f"Head{space}{query} {added}{space}{key}{space}{value}{space}{written}"


def feed_forward(layer: FeedForward, indent: int) -> str:
    """Return a feed-forward layer; every unit has its row, since φ(0) may differ from 0."""
    space = "\n" + " " * (indent + 2)
    w1, w2 = matrix(layer.w1, indent + 2, whole=True), matrix(layer.w2, indent + 2)
    activation = "Relu" if layer.activation == RELU else _pieces(layer.activation)
    parts = [activation, f"{w1} {bias(layer.b1)}", f"{w2} {bias(layer.b2)}"]
    return f"FeedForward (Feed {space.join(parts)})"


def _pieces(function: PiecewiseLinear) -> str:
    lines = [f"({rational(slope)}, {rational(rest)})" for slope, rest in function.pieces]
    later = [f"({rational(b)}, {p})" for b, p in zip(function.breaks, lines[1:], strict=True)]
    return f"(Pieces {lines[0]} {listed(later)})"
