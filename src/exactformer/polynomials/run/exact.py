"""A blueprint run on rationals: every score, selection and sum exact."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.core.layers import Embedding, Readout
from exactformer.core.run_exact import Token, add, apply_layer
from exactformer.errors import InputError
from exactformer.polynomials.blueprint import Blueprint


def run_exact(blueprint: Blueprint, point: Iterable[Any]) -> Fraction | tuple[Fraction, ...]:
    """Return the model's output at a point, exactly; floats count as the binary numbers they are."""
    x = [to_fmpq(c) for c in point]
    if len(x) != len(blueprint.variables):
        raise InputError(f"a point has {len(blueprint.variables)} coordinates, not {len(x)}")
    stream = _embed(blueprint.embedding, x)
    for block in blueprint.blocks:
        stream = apply_layer(block.feed_forward, apply_layer(block.attention, stream))
    outputs = tuple(_read(readout, stream) for readout in blueprint.readouts)
    return outputs if blueprint.vector else outputs[0]


def _read(readout: Readout, stream: list[Token]) -> Fraction:
    total = to_fmpq(readout.bias)
    for i, dimension, weight in readout.beta:
        if dimension in stream[i]:
            total += to_fmpq(weight) * stream[i][dimension]
    return to_fraction(total)


def _embed(embedding: Embedding, x: list[Any]) -> list[Token]:
    stream: list[Token] = [{} for _ in range(embedding.features.rows)]
    for i, dimension, value in embedding.constant:
        stream[i][dimension] = to_fmpq(value)
    for i, j, value in embedding.features:
        add(stream[i], embedding.dimension, to_fmpq(value) * x[j])
    return stream
