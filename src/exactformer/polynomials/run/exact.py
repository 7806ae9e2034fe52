"""A blueprint run on rationals: every score, selection and sum exact."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from flint import fmpq

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.core.layers import (
    Activation,
    Attention,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExecutionError, InputError
from exactformer.polynomials.blueprint import Blueprint

Token = dict[int, fmpq]
"""A token as its non-zero dimensions."""


def run_exact(blueprint: Blueprint, point: Iterable[Any]) -> Fraction | tuple[Fraction, ...]:
    """Return the model's output at a point, exactly; floats count as the binary numbers they are."""
    x = [to_fmpq(c) for c in point]
    if len(x) != len(blueprint.variables):
        raise InputError(f"a point has {len(blueprint.variables)} coordinates, not {len(x)}")
    stream = _embed(blueprint.embedding, x)
    for block in blueprint.blocks:
        stream = _feed_forward(block.feed_forward, _attention(block.attention, stream))
    outputs = tuple(_read(readout, stream) for readout in blueprint.readouts)
    return outputs if blueprint.vector else outputs[0]


def _read(readout: Readout, stream: list[Token]) -> Fraction:
    total = to_fmpq(readout.bias)
    for i, dimension, weight in readout.beta:
        if dimension in stream[i]:
            total += to_fmpq(weight) * stream[i][dimension]
    return to_fraction(total)


def _embed(embedding: Embedding, x: list[fmpq]) -> list[Token]:
    stream: list[Token] = [{} for _ in range(embedding.features.rows)]
    for i, dimension, value in embedding.constant:
        stream[i][dimension] = to_fmpq(value)
    for i, j, value in embedding.features:
        _add(stream[i], embedding.dimension, to_fmpq(value) * x[j])
    return stream


def _attention(attention: Attention, stream: list[Token]) -> list[Token]:
    result = [dict(token) for token in stream]
    for head in attention.heads:
        values = [_apply(head.value, token) for token in stream]
        for token, weights in zip(result, _weights(head, attention.selection, stream), strict=True):
            for j, weight in weights.items():
                for dimension, value in values[j].items():
                    _add(token, dimension, weight * value)
    return result


def _weights(head: Head, selection: Selection, stream: list[Token]) -> list[dict[int, fmpq]]:
    queries = [_apply(head.query, token) for token in stream]
    keys = [_apply(head.key, token) for token in stream]
    return [_select([_dot(query, key) for key in keys], selection) for query in queries]


def _select(scores: list[fmpq], selection: Selection) -> dict[int, fmpq]:
    largest = max(scores)
    if selection.rule is Rule.ONE_HOT_MAX:
        return {scores.index(largest): largest}
    if selection.rule is Rule.HARD_MAX:
        places = [j for j, score in enumerate(scores) if score == largest]
        return {j: fmpq(1, len(places)) for j in places}
    raise ExecutionError(f"{selection.rule} is not rational; run it with executor='literal'")


def _feed_forward(layer: FeedForward, stream: list[Token]) -> list[Token]:
    b1 = {i: to_fmpq(v) for i, _, v in layer.b1}
    b2 = {i: to_fmpq(v) for i, _, v in layer.b2}
    result = []
    for token in stream:
        hidden = _apply(layer.w1, token)
        for unit, bias in b1.items():
            _add(hidden, unit, bias)
        if layer.activation is Activation.RELU:
            hidden = {unit: value for unit, value in hidden.items() if value > 0}
        after = dict(token)
        for change in (_apply(layer.w2, hidden), b2):
            for dimension, value in change.items():
                _add(after, dimension, value)
        result.append(after)
    return result


def _apply(matrix: Matrix, token: Token) -> Token:
    result: Token = {}
    columns = matrix.by_column
    for dimension, value in token.items():
        for row, weight in columns.get(dimension, ()):
            _add(result, row, to_fmpq(weight) * value)
    return result


def _dot(query: Token, key: Token) -> fmpq:
    total = fmpq(0)
    for row, value in query.items():
        if row in key:
            total += value * key[row]
    return total


def _add(token: Token, dimension: int, value: fmpq) -> None:
    token[dimension] = token[dimension] + value if dimension in token else value
