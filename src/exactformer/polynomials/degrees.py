"""Degrees of what a blueprint computes, bounded by its structure before anything is computed.

Every entry of a token's stream is a polynomial in the token's feature. A score multiplies two of them
and may multiply a third, so a block can triple degrees and a small file can reach any of them. Degrees
are followed here as integers, by dimension: a sum has the largest degree of its terms.
"""

from __future__ import annotations

from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint

Degrees = dict[int, int]
"""By dimension; those that are zero for every token are left out."""


def largest_degree(blueprint: Blueprint) -> int:
    """Return a bound of the degree of every entry of the stream, of every query and of every score."""
    stream: Degrees = {dimension: 0 for _, dimension in blueprint.embedding.constant.entries}
    stream[blueprint.embedding.dimension] = 1
    largest = 1
    for block in blueprint.blocks:
        attended = dict(stream)
        for head in block.attention.heads:
            queries, keys = _applied(head.query, stream), _applied(head.key, stream)
            score = max((queries[r] + keys[r] for r in queries.keys() & keys.keys()), default=0)
            weight = 0 if block.attention.selection.rule is Rule.HARD_MAX else score
            largest = max(largest, score)
            for dimension, degree in _applied(head.value, stream).items():
                attended[dimension] = max(attended.get(dimension, 0), weight + degree)
        layer = block.feed_forward
        units = _applied(layer.w1, attended)
        for unit, _ in layer.b1.entries:
            units.setdefault(unit, 0)
        stream = attended
        for dimension, degree in _applied(layer.w2, units).items():
            stream[dimension] = max(stream.get(dimension, 0), degree)
        for dimension, _ in layer.b2.entries:
            stream.setdefault(dimension, 0)
        largest = max(largest, *stream.values())
    return largest


def _applied(matrix: Matrix, degrees: Degrees) -> Degrees:
    found: Degrees = {}
    for row, column in matrix.entries:
        if column in degrees:
            found[row] = max(found.get(row, 0), degrees[column])
    return found
