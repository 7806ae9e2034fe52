"""A second interpreter of hard sequence blueprints: every layer as it is defined, in exact rationals.

It shares no code with the package's own runs, and is an order of magnitude quicker, so that candidates
can be run on many inputs.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from flint import fmpq

from exactformer.core.layers import Attention, BiasedHead, FeedForward, Layer, Rule
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceBlueprint

Column = list[Any]
Stream = list[Column]
Step = Callable[[Stream], Stream]
Entries = list[tuple[int, int, Any]]

ZERO = fmpq(0)


class NotHardError(ValueError):
    """A layer does not select by a hard maximum."""


class Interpreter:
    """A blueprint made ready to be run many times."""

    def __init__(self, blueprint: SequenceBlueprint) -> None:
        embedding = blueprint.embedding
        self.features = _entries(embedding.features)
        self.constant = _entries(embedding.constant)
        self.positions = _entries(embedding.positions)
        self.width = embedding.features.rows
        self.stages = [
            (stage.name, [step for part in stage.parts for step in _steps(part)])
            for stage in blueprint.stages
        ]
        self.readout = blueprint.readout
        self.code = blueprint.code

    def stream(self, tokens: Iterable[Sequence[Fraction]], before: str | None = None) -> Stream:
        """Return the stream after all layers, or before a stage."""
        stream = []
        for token in tokens:
            column = _times(self.features, self.width, [rational(v) for v in token])
            for r, _, value in self.constant:
                column[r] += value
            stream.append(column)
        for r, i, value in self.positions:
            stream[i][r] += value
        for name, steps in self.stages:
            if name == before:
                break
            for step in steps:
                stream = step(stream)
        return stream

    def __call__(self, tokens: Iterable[Sequence[Fraction]]) -> tuple[tuple[Fraction, ...], ...]:
        """Return the output columns."""
        return tuple(self.read(self.readout, column) for column in self.stream(tokens))

    def keys(self, tokens: Iterable[Sequence[Fraction]], before: str = "values") -> list[Fraction]:
        """Return what the code reads from every token before a stage."""
        return [self.read(self.code, column)[0] for column in self.stream(tokens, before)]

    def read(self, matrix: Matrix, column: Column) -> tuple[Fraction, ...]:
        """Return matrix · column as Python's fractions."""
        found = _times(_entries(matrix), matrix.rows, column)
        return tuple(Fraction(int(v.p), int(v.q)) for v in found)


def rational(value: Fraction) -> Any:
    """Return a fraction in the interpreter's arithmetic."""
    return fmpq(value.numerator, value.denominator)


def _entries(matrix: Matrix) -> Entries:
    return [(i, j, rational(v)) for (i, j), v in matrix.entries.items()]


def _times(entries: Entries, rows: int, column: Sequence[Any]) -> Column:
    result = [ZERO] * rows
    for i, j, value in entries:
        result[i] += value * column[j]
    return result


def _steps(part: Layer) -> list[Step]:
    if isinstance(part, Attention):
        return [_attention(part)]
    if part.successive is None:
        return [_units(part, range(part.w1.rows), True)]
    h = part.successive
    count = part.w1.rows // h
    return [_units(part, range(m * h, (m + 1) * h), m == 0) for m in range(count)]


def _units(layer: FeedForward, own: range, first: bool) -> Step:
    units = [
        (
            [(j, rational(v)) for j, v in layer.w1.by_row.get(m, ())],
            rational(layer.b1[m, 0]),
            [(i, rational(v)) for i, v in layer.w2.by_column.get(m, ())],
        )
        for m in own
    ]
    units = [unit for unit in units if unit[2]]
    rest = [(r, v) for r, _, v in _entries(layer.b2)] if first else []
    activation = _activation(layer)

    def step(stream: Stream) -> Stream:
        result = []
        for column in stream:
            after = list(column)
            for reads, bias, writes in units:
                t = bias
                for j, v in reads:
                    t = t + v * column[j]
                hidden = activation(t)
                if hidden:
                    for i, v in writes:
                        after[i] += v * hidden
            for r, v in rest:
                after[r] += v
            result.append(after)
        return result

    return step


def _activation(layer: FeedForward) -> Callable[[Any], Any]:
    breaks = [rational(b) for b in layer.activation.breaks]
    pieces = [(rational(a), rational(b)) for a, b in layer.activation.pieces]

    def piecewise(t: Any) -> Any:
        slope, intercept = pieces[bisect_right(breaks, t)]
        return slope * t + intercept

    return piecewise


def _attention(layer: Attention) -> Step:
    if layer.selection.rule is not Rule.HARD_MAX:
        raise NotHardError(str(layer.selection.rule))
    heads = []
    for head in layer.heads:
        bias = [ZERO] * head.query.rows
        if isinstance(head, BiasedHead):
            for r, _, v in _entries(head.bias):
                bias[r] = v
        heads.append(
            (_entries(head.query), _entries(head.key), _entries(head.value), bias, head.key.rows)
        )

    def step(stream: Stream) -> Stream:
        result = [list(column) for column in stream]
        for query, key, value, bias, size in heads:
            keys = [_times(key, size, column) for column in stream]
            values = [_times(value, len(column), column) for column in stream]
            for column, after in zip(stream, result, strict=True):
                wanted = _times(query, len(bias), column)
                wanted = [a + b for a, b in zip(wanted, bias, strict=True)]
                scores = [sum((a * b for a, b in zip(wanted, k, strict=True)), ZERO) for k in keys]
                largest = max(scores)
                chosen = [v for v, score in zip(values, scores, strict=True) if score == largest]
                for r in range(len(after)):
                    total = sum((v[r] for v in chosen), ZERO)
                    if total:
                        after[r] += total / len(chosen)
        return result

    return step
