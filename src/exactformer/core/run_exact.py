"""Layers run on rationals: every score, selection and sum exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from fractions import Fraction

from flint import fmpq

from exactformer.algebra.rational import to_fraction
from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExecutionError

Token = dict[int, fmpq]
"""A token as its dimensions; those that are missing are zero."""


def apply_layer(layer: Layer, stream: list[Token]) -> list[Token]:
    """Return the stream after a layer, or after all of a run."""
    if isinstance(layer, Attention):
        return _attention(layer, stream)
    for one in layer.layers():
        stream = _feed_forward(one, stream)
    return stream


def multiply(matrix: Matrix, stream: list[Token]) -> list[Token]:
    """Return matrix · z for every token z."""
    columns = {j: [(i, _rational(v)) for i, v in own] for j, own in matrix.by_column.items()}
    result: list[Token] = [{} for _ in stream]
    for token, product in zip(stream, result, strict=True):
        for dimension, value in token.items():
            for row, weight in columns.get(dimension, ()):
                add(product, row, weight * value)
    return result


def add(token: Token, dimension: int, value: fmpq) -> None:
    """Add to one dimension of a token."""
    token[dimension] = token[dimension] + value if dimension in token else value


def add_vector(vector: Matrix, stream: list[Token]) -> None:
    """Add a matrix of one column to every token."""
    entries = [(i, _rational(value)) for i, _, value in vector]
    for token in stream:
        for dimension, value in entries:
            add(token, dimension, value)


def to_token(column: Iterable[Fraction]) -> Token:
    """Return a dense column as a token."""
    return {i: _rational(value) for i, value in enumerate(column) if value}


def to_column(token: Token, width: int) -> list[Fraction]:
    """Return a token as a dense column."""
    return [to_fraction(token[i]) if i in token else Fraction(0) for i in range(width)]


def _attention(layer: Attention, stream: list[Token]) -> list[Token]:
    result = [dict(token) for token in stream]
    for head in layer.heads:
        queries, keys, values = (multiply(m, stream) for m in (head.query, head.key, head.value))
        if isinstance(head, BiasedHead):
            add_vector(head.bias, queries)
        for token, query in zip(result, queries, strict=True):
            weights = _select([_dot(query, key) for key in keys], layer.selection)
            for j, weight in weights.items():
                for dimension, value in values[j].items():
                    add(token, dimension, weight * value)
    return result


def _select(scores: list[fmpq], selection: Selection) -> dict[int, fmpq]:
    largest = max(scores)
    if selection.rule is Rule.ONE_HOT_MAX:
        return {scores.index(largest): largest}
    if selection.rule is Rule.HARD_MAX:
        places = [j for j, score in enumerate(scores) if score == largest]
        return {j: fmpq(1, len(places)) for j in places}
    raise ExecutionError(f"{selection.rule} is not rational; run it with executor='literal'")


def _feed_forward(layer: FeedForward, stream: list[Token]) -> list[Token]:
    hidden = multiply(layer.w1, stream)
    add_vector(layer.b1, hidden)
    change = multiply(layer.w2, _activated(layer.activation, layer.w1.rows, hidden))
    result = [dict(token) for token in stream]
    for after, added in zip(result, change, strict=True):
        for dimension, value in added.items():
            add(after, dimension, value)
    add_vector(layer.b2, result)
    return result


def _activated(function: PiecewiseLinear, units: int, hidden: list[Token]) -> list[Token]:
    breaks = [_rational(b) for b in function.breaks]
    pieces = [(_rational(slope), _rational(rest)) for slope, rest in function.pieces]
    zero, result = fmpq(0), []
    for token in hidden:
        after = {}
        for unit in range(units):
            t = token.get(unit, zero)
            slope, rest = pieces[bisect_right(breaks, t)]
            if value := slope * t + rest:
                after[unit] = value
        result.append(after)
    return result


def _dot(query: Token, key: Token) -> fmpq:
    return sum((value * key[row] for row, value in query.items() if row in key), fmpq(0))


def _rational(value: Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)
