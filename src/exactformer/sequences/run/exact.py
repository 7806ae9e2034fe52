"""A sequence blueprint on rationals, layer by layer: slow, and the reference for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from exactformer.core.layers import (
    Activation,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    PiecewiseFeedForward,
    Rule,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExecutionError
from exactformer.sequences.blueprint import Layer, SequenceBlueprint, SequenceEmbedding

Column = list[Fraction]
Record = Callable[[str, list[Column]], None]


def run_sequence(
    blueprint: SequenceBlueprint,
    x: Sequence[Sequence[Fraction]],
    record: Record | None = None,
) -> list[Column]:
    """Return the n output columns for n input columns of d rationals.

    ``record(name, stream)`` is shown the stream after every layer.
    """
    stream = embed(blueprint.embedding, x)
    if record:
        record("embedding", stream)
    for name, layer in blueprint.layers():
        stream = apply_layer(layer, stream)
        if record:
            record(name, stream)
    return [times(blueprint.readout, column) for column in stream]


def run_sequences(
    blueprint: SequenceBlueprint, inputs: Sequence[Sequence[Sequence[Fraction]]]
) -> list[list[Column]]:
    """Run several inputs together, so that every layer is made only once."""
    streams = [embed(blueprint.embedding, x) for x in inputs]
    for _, layer in blueprint.layers():
        streams = [apply_layer(layer, stream) for stream in streams]
    return [[times(blueprint.readout, column) for column in stream] for stream in streams]


def embed(embedding: SequenceEmbedding, x: Sequence[Sequence[Fraction]]) -> list[Column]:
    """Return the stream of an input."""
    constant = _entries(embedding.constant)
    stream = [add(times(embedding.features, column), constant) for column in x]
    for r, i, value in embedding.positions:
        stream[i][r] += value
    return stream


def apply_layer(layer: Layer, stream: list[Column]) -> list[Column]:
    """Return the stream after one layer."""
    if isinstance(layer, Attention):
        return _attention(layer, stream)
    return [_feed_forward(layer, column) for column in stream]


def _attention(layer: Attention, stream: list[Column]) -> list[Column]:
    if layer.selection.rule is not Rule.HARD_MAX:
        raise ExecutionError(f"{layer.selection.rule} is not rational; run the module instead")
    result = [list(column) for column in stream]
    for head in layer.heads:
        keys = [times(head.key, column) for column in stream]
        sums: dict[tuple[int, ...], Column] = {}
        for i, column in enumerate(stream):
            query = add(times(head.query, column), _bias(head))
            scores = [sum(map(Fraction.__mul__, query, key), Fraction(0)) for key in keys]
            largest = max(scores)
            chosen = tuple(j for j, score in enumerate(scores) if score == largest)
            if chosen not in sums:
                columns = zip(*(stream[j] for j in chosen), strict=True)
                mean = [sum(rows) / len(chosen) for rows in columns]
                sums[chosen] = times(head.value, mean)
            result[i] = add(result[i], sums[chosen])
    return result


def _bias(head: Head) -> Column:
    if isinstance(head, BiasedHead):
        return _entries(head.bias)
    return [Fraction(0)] * head.query.rows


def _feed_forward(layer: FeedForward | PiecewiseFeedForward, column: Column) -> Column:
    hidden = add(times(layer.w1, column), _entries(layer.b1))
    if isinstance(layer, PiecewiseFeedForward):
        hidden = [layer.activation(t) for t in hidden]
    elif layer.activation is Activation.RELU:
        hidden = [max(t, Fraction(0)) for t in hidden]
    return add(add(column, times(layer.w2, hidden)), _entries(layer.b2))


def times(matrix: Matrix, column: Sequence[Fraction]) -> Column:
    """Return matrix · column."""
    result = [Fraction(0)] * matrix.rows
    for j, entries in matrix.by_column.items():
        if column[j]:
            for i, value in entries:
                result[i] += value * column[j]
    return result


def add(first: Column, second: Column) -> Column:
    """Return the sum of two columns."""
    return [a + b if b else a for a, b in zip(first, second, strict=True)]


def _entries(vector: Matrix) -> Column:
    result = [Fraction(0)] * vector.rows
    for i, _, value in vector:
        result[i] = value
    return result
