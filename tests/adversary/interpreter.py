"""Runs of a blueprint that share no code with the package: on rationals, on polynomials, on floats.

The weights are read entry by entry and carried out as the layers are defined. Besides the outputs a run
returns what proofs speak of: how far each token's score with itself is above its best other score, and
what enters every ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mpoly
from numpy.typing import NDArray

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ring import ring
from exactformer.core.domain import Domain
from exactformer.core.layers import RELU, Head, Rule
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint

Array = NDArray[np.float64]
Vector = dict[int, Any]
"""Entries that are not structurally zero, rationals or polynomials."""


def rational(value: Fraction) -> fmpq:
    """Return a fraction as FLINT holds it."""
    return fmpq(value.numerator, value.denominator)


def fraction(value: fmpq) -> Fraction:
    """Return a rational of FLINT as a fraction."""
    return Fraction(int(value.p), int(value.q))


def is_inside(domain: Domain, point: Sequence[Fraction], factor: Fraction = Fraction(1)) -> bool:
    """Whether a point lies in the domain, enlarged by a factor; exactly, boundary included."""
    offsets = [x - domain.offset(j) for j, x in enumerate(point)]
    if hasattr(domain, "half_widths"):
        return all(abs(o) <= domain.extent(j) * factor for j, o in enumerate(offsets))
    return sum(o * o for o in offsets) <= (domain.radius * factor) ** 2


@dataclass(frozen=True)
class ExactRun:
    """A run at one point."""

    outputs: tuple[Fraction, ...]
    margins: list[list[list[Fraction | None]]]
    """By block, head and token; ``None`` where a token has no rival."""


@dataclass(frozen=True)
class _Pattern:
    """What was decided on the way: by block the tokens selected in every head, and the live units."""

    selected: list[list[list[list[int]]]]
    live: list[list[set[int]]]


def run_rationally(blueprint: Blueprint, point: Sequence[Fraction]) -> ExactRun:
    """Run on rationals."""
    outputs, margins, _ = _run_at(blueprint, point)
    return ExactRun(tuple(fraction(y) for y in outputs), margins)


def polynomial_at(blueprint: Blueprint, point: Sequence[Fraction], selves: bool) -> Target | None:
    """Return the polynomials that the outputs are near a point.

    The selections and signs are those at the point; with ``selves`` every token selects itself. There
    is none where the degree would explode.
    """
    d = len(blueprint.variables)
    context = ring(d)
    _, _, pattern = _run_at(blueprint, point)
    one = context.from_dict({(0,) * d: 1})
    stream = _embedded(blueprint, list(context.gens()), lambda c: one * c)
    for b, block in enumerate(blueprint.blocks):
        attended = [dict(token) for token in stream]
        for h, head in enumerate(block.attention.heads):
            queries, keys, values = (
                [_product(m, token) for token in stream] for m in (head.query, head.key, head.value)
            )
            for i, token in enumerate(attended):
                chosen = [i] if selves else pattern.selected[b][h][i]
                for j in chosen:
                    weight: Any = fmpq(1, len(chosen))
                    if block.attention.selection.rule is Rule.ONE_HOT_MAX:
                        weight = _dot(queries[i], keys[j])
                    _accumulate(token, values[j], weight)
        stream = _feed_forward(block.feed_forward, attended, pattern.live[b], lambda c: one * c)[0]
        if any(_is_large(entry) for token in stream for entry in token.values()):
            return None
    polynomials = []
    for readout in blueprint.readouts:
        total = one * rational(readout.bias)
        for i, dimension, weight in readout.beta:
            if dimension in stream[i]:
                total += stream[i][dimension] * rational(weight)
        polynomials.append(Polynomial(blueprint.variables, total))
    return Target(tuple(polynomials), blueprint.vector)


def _is_large(entry: fmpq_mpoly) -> bool:
    return len(entry) > 200 or int(entry.total_degree()) > 16


def _run_at(
    blueprint: Blueprint, point: Sequence[Fraction]
) -> tuple[list[fmpq], list[list[list[Fraction | None]]], _Pattern]:
    stream = _embedded(blueprint, [rational(x) for x in point], lambda c: c)
    margins, pattern = [], _Pattern([], [])
    for block in blueprint.blocks:
        attended = [dict(token) for token in stream]
        margins.append([])
        pattern.selected.append([])
        for head in block.attention.heads:
            values = [_product(head.value, token) for token in stream]
            found, chosen_by = [], []
            for i, scores in enumerate(_scores(head, stream)):
                best = max(scores)
                places = [j for j, score in enumerate(scores) if score == best]
                rivals = [score for j, score in enumerate(scores) if j != i]
                found.append(fraction(scores[i] - max(rivals)) if rivals else None)
                weight = fmpq(1, len(places))
                if block.attention.selection.rule is Rule.ONE_HOT_MAX:
                    places, weight = places[:1], best
                chosen_by.append(places)
                for j in places:
                    _accumulate(attended[i], values[j], weight)
            margins[-1].append(found)
            pattern.selected[-1].append(chosen_by)
        stream, live = _feed_forward(block.feed_forward, attended, None, lambda c: c)
        pattern.live.append(live)
    outputs = []
    for readout in blueprint.readouts:
        total = rational(readout.bias)
        for i, dimension, weight in readout.beta:
            total += stream[i].get(dimension, fmpq(0)) * rational(weight)
        outputs.append(total)
    return outputs, margins, pattern


def _embedded(
    blueprint: Blueprint, x: Sequence[Any], constant: Callable[[fmpq], Any]
) -> list[Vector]:
    stream: list[Vector] = [{} for _ in range(blueprint.tokens)]
    for i, dimension, value in blueprint.embedding.constant:
        stream[i][dimension] = constant(rational(value))
    for i, j, value in blueprint.embedding.features:
        _accumulate(stream[i], {blueprint.embedding.dimension: x[j]}, rational(value))
    return stream


def _scores(head: Head, stream: list[Vector]) -> list[list[fmpq]]:
    queries = [_product(head.query, token) for token in stream]
    keys = [_product(head.key, token) for token in stream]
    return [[fmpq(0) + _dot(query, key) for key in keys] for query in queries]


def _feed_forward(
    layer: Any, stream: list[Vector], live: list[set[int]] | None, constant: Callable[[fmpq], Any]
) -> tuple[list[Vector], list[set[int]]]:
    result, decided = [], []
    b1, b2 = ({i: constant(rational(v)) for i, _, v in m} for m in (layer.b1, layer.b2))
    for i, token in enumerate(stream):
        hidden = _product(layer.w1, token)
        _accumulate(hidden, b1, fmpq(1))
        if layer.activation == RELU:
            units = {u for u, z in hidden.items() if z > 0} if live is None else live[i]
        else:
            units = set(hidden)
        decided.append(units)
        after = dict(token)
        _accumulate(
            after, _product(layer.w2, {u: z for u, z in hidden.items() if u in units}), fmpq(1)
        )
        _accumulate(after, b2, fmpq(1))
        result.append(after)
    return result, decided


def _product(matrix: Matrix, token: Vector) -> Vector:
    result: Vector = {}
    for row, column, weight in matrix:
        if column in token:
            _accumulate(result, {row: token[column]}, rational(weight))
    return result


def _dot(query: Vector, key: Vector) -> Any:
    return sum((value * key[row] for row, value in query.items() if row in key), fmpq(0))


def _accumulate(token: Vector, change: Vector, weight: Any) -> None:
    for dimension, value in change.items():
        added = value * weight
        token[dimension] = token[dimension] + added if dimension in token else added


@dataclass(frozen=True)
class FloatRun:
    """A run at N points in float64, for finding points worth an exact run."""

    streams: list[Array]
    """The embedded tokens and the stream after every block, each N × tokens × width."""
    margins: list[list[Array]]
    """By block and head N × tokens."""
    entering: list[Array | None]
    """By block what enters a ReLU, N × tokens × units."""


class FloatBlueprint:
    """A blueprint as dense float64 arrays."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.arrays = {path: dense(matrix) for path, matrix in blueprint.matrices()}

    def run(self, points: Array) -> FloatRun:
        """Run at points, N × d."""
        arrays, blueprint = self.arrays, self.blueprint
        n = blueprint.tokens
        stream = np.repeat(arrays["embedding.constant"][None], len(points), axis=0)
        stream[:, :, blueprint.embedding.dimension] += points @ arrays["embedding.features"].T
        streams, margins, entering = [stream], [], []
        rows, own = np.arange(n), np.eye(n, dtype=bool)
        for b, block in enumerate(blueprint.blocks):
            attended = stream.copy()
            margins.append([])
            for h in range(len(block.attention.heads)):
                query, key, value = (arrays[f"blocks.{b}.heads.{h}.{m}"] for m in _HEAD)
                scores = (stream @ query.T) @ (stream @ key.T).transpose(0, 2, 1)
                rivals = np.where(own, -np.inf, scores).max(axis=2, initial=-np.inf)
                margins[-1].append(scores[:, rows, rows] - rivals)
                weights = _select(scores, block.attention.selection)
                attended = attended + weights @ (stream @ value.T)
            w1, b1, w2, b2 = (arrays[f"blocks.{b}.feed_forward.{m}"] for m in _FEED_FORWARD)
            hidden = attended @ w1.T + b1.T
            is_relu = block.feed_forward.activation == RELU
            entering.append(hidden if is_relu and hidden.shape[2] else None)
            hidden = np.maximum(hidden, 0) if is_relu else hidden
            stream = attended + hidden @ w2.T + b2.T
            streams.append(stream)
        return FloatRun(streams, margins, entering)


_HEAD = ("query", "key", "value")
_FEED_FORWARD = ("w1", "b1", "w2", "b2")


def _select(scores: Array, selection: Any) -> Array:
    largest = scores.max(axis=2, keepdims=True)
    if selection.rule is Rule.ONE_HOT_MAX:
        first = np.arange(scores.shape[2]) == scores.argmax(axis=2)[:, :, None]
        return np.where(first, largest, 0.0)
    if selection.rule is Rule.HARD_MAX:
        chosen = (scores == largest).astype(float)
        return chosen / chosen.sum(axis=2, keepdims=True)
    weights = np.exp((scores - largest) / float(selection.temperature))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def dense(matrix: Matrix) -> Array:
    """Return a matrix in float64."""
    table = np.zeros(matrix.shape)
    for i, j, value in matrix:
        table[i, j] = float(value)
    return table
