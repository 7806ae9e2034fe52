"""A sequence blueprint on rationals, layer by layer: slow, and the reference for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from exactformer.algebra.rational import to_fmpq
from exactformer.core.run_exact import (
    Token,
    add,
    add_vector,
    apply_layer,
    multiply,
    to_column,
    to_token,
)
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding

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
        record("embedding", _columns(stream, blueprint.width))
    for name, layer in blueprint.layers():
        stream = apply_layer(layer, stream)
        if record:
            record(name, _columns(stream, blueprint.width))
    return _columns(multiply(blueprint.readout, stream), blueprint.dim)


def run_sequences(
    blueprint: SequenceBlueprint, inputs: Sequence[Sequence[Sequence[Fraction]]]
) -> list[list[Column]]:
    """Run several inputs together, so that every layer is made only once."""
    streams = [embed(blueprint.embedding, x) for x in inputs]
    for _, layer in blueprint.layers():
        streams = [apply_layer(layer, stream) for stream in streams]
    return [_columns(multiply(blueprint.readout, stream), blueprint.dim) for stream in streams]


def embed(embedding: SequenceEmbedding, x: Sequence[Sequence[Fraction]]) -> list[Token]:
    """Return the stream of an input."""
    stream = multiply(embedding.features, [to_token(column) for column in x])
    add_vector(embedding.constant, stream)
    for r, i, value in embedding.positions:
        add(stream[i], r, to_fmpq(value))
    return stream


def _columns(stream: list[Token], height: int) -> list[Column]:
    return [to_column(token, height) for token in stream]
