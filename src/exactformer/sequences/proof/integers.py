"""Streams of integers under layers, exact whatever their size.

A stream is an array (classes, n, w) of integers, counted in the blueprint's unit (a cell). A layer
needs room for the largest number that it can meet; that is bounded beforehand, from the largest entry
of every row, and decides between int64 and Python's own integers. The same bound decides whether a
module in float64 carries out the layer without rounding: all numbers that it meets, scores and partial
sums included, are then integers of at most 53 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.layers import Attention, BiasedHead, Head, Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError

Integers = NDArray[Any]
FLOAT_INTEGERS = 1 << 53
"""Below this every integer is a float64."""
_SAFE = 1 << 62


@dataclass(frozen=True)
class Streams:
    """Integer streams of several classes, and the largest number met on the way to them."""

    entries: Integers
    largest: int

    def reach(self) -> list[int]:
        """Return the largest |entry| of every row."""
        return [int(most) for most in np.abs(self.entries).max(axis=(0, 1), initial=0)]

    def with_room(self, *numbers: int) -> Streams:
        """Return the streams in a type that holds numbers of these sizes, which are noted."""
        most = max(self.largest, *numbers)
        return Streams(self.entries.astype(integer_type(most), copy=False), most)


def integer_type(largest: int) -> type:
    """Return what holds integers of a size: int64, or Python's own."""
    return np.int64 if largest < _SAFE else object


def attended(streams: Streams, layer: Attention, unit: Fraction) -> Streams:
    """Carry out a hard maximum with heads of size one.

    Scores are q·k_j for one number q, so that the columns with the largest key are averaged where
    q > 0, those with the smallest where q < 0, and all where q = 0.
    """
    if layer.selection.rule is not Rule.HARD_MAX:
        raise CertificationError("only a hard maximum can be followed exactly")
    reach, tokens = streams.reach(), streams.entries.shape[1]
    heads = [SmallHead.of(head, unit) for head in layer.heads]
    added = dict.fromkeys(range(len(reach)), 0)
    for head in heads:
        for row, weights in head.value.items():
            added[row] += tokens * _largest(weights, reach)
    grown = max((reach[row] + most for row, most in added.items()), default=0)
    scores = [
        max(1, _largest(head.query, reach) + abs(head.bias)) * max(1, _largest(head.key, reach))
        for head in heads
    ]
    rounded = FLOAT_INTEGERS if any(not head.is_binary for head in heads) else 0
    streams = streams.with_room(grown, rounded, *scores)
    entries, result = streams.entries, streams.entries.copy()
    for head in heads:
        query, key = combined(entries, head.query) + head.bias, combined(entries, head.key)
        largest = key == key.max(axis=1, keepdims=True)
        smallest = key == key.min(axis=1, keepdims=True)
        cases = (query > 0, largest), (query < 0, smallest), (query == 0, np.ones_like(largest))
        for row, weights in head.value.items():
            values = combined(entries, weights)
            for turn, chosen in cases:
                if turn.any():
                    result[..., row] += np.where(turn, _mean(values, chosen, turn), 0)
    return Streams(result, streams.largest)


@dataclass(frozen=True)
class SmallHead:
    """A head of size one whose weights are integers; its query is scaled to make the bias one."""

    query: Mapping[int, int]
    bias: int
    key: Mapping[int, int]
    value: Mapping[int, Mapping[int, int]]
    """{row: {row it reads: weight}}."""
    scale: int
    """What the query was scaled by."""

    @property
    def is_binary(self) -> bool:
        """Whether float64 holds bias and query as they were before they were scaled, and scores.

        A cell is 2^(−400) or more, so that no score underflows: it is 0 or 2^(−800)/scale at least.
        """
        return self.scale & (self.scale - 1) == 0 and self.scale <= 1 << 200

    @classmethod
    def of(cls, head: Head, unit: Fraction) -> SmallHead:
        """Read a head; raise where it is anything else."""
        if head.query.rows != 1 or head.key.rows != 1:
            raise CertificationError("a head is not of size one")
        bias = head.bias[0, 0] / unit if isinstance(head, BiasedHead) else Fraction(0)
        scale = bias.denominator
        return cls(
            {r: whole(v * scale) for _, r, v in head.query},
            bias.numerator,
            {r: whole(v) for _, r, v in head.key},
            {row: {r: whole(v) for r, v in line} for row, line in head.value.by_row.items()},
            scale,
        )


def read_off(streams: Streams, read: Matrix) -> tuple[Integers, int]:
    """Return what a matrix of one row reads from every token, and a bound on it."""
    weights = {r: whole(v) for _, r, v in read}
    most = _largest(weights, streams.reach())
    return combined(streams.with_room(most).entries, weights), most


def combined(entries: Integers, weights: Mapping[int, int]) -> Integers:
    """Return Σ_r weight_r·z_r for every token; the entries must have room for it."""
    total = np.zeros(entries.shape[:-1], dtype=entries.dtype)
    for r, weight in weights.items():
        total = total + weight * entries[..., r]
    return total


def looked_up(
    streams: Streams,
    read: Matrix,
    columns: Mapping[int, Mapping[int, Fraction]],
    rest: Mapping[int, Fraction],
) -> Streams:
    """Add to every token the column of the key that it reads, if there is one, and the rest."""
    weights = {r: whole(v) for _, r, v in read}
    rows = sorted({row for column in columns.values() for row in column} | rest.keys())
    keys = sorted(columns)
    added = {row: [whole(columns[k].get(row, Fraction(0))) for k in keys] for row in rows}
    constant = {row: whole(rest.get(row, Fraction(0))) for row in rows}
    reach = streams.reach()
    sums = (reach[row] + abs(constant[row]) + max(map(abs, added[row])) for row in rows)
    ends = max(map(abs, keys))
    streams = streams.with_room(_largest(weights, reach) + ends, *sums)
    entries, result = streams.entries, streams.entries.copy()
    found = combined(entries, weights)
    known = np.array(keys, dtype=entries.dtype)
    place = np.searchsorted(known, found).clip(max=len(keys) - 1)
    hit = known[place] == found
    for row in rows:
        values = np.array(added[row], dtype=entries.dtype)
        result[..., row] += np.where(hit, values[place], 0) + constant[row]
    return Streams(result, streams.largest)


def whole(value: Fraction) -> int:
    """Return a rational that is an integer; raise where it is none."""
    if value.denominator != 1:
        raise CertificationError(f"{value} should be an integer")
    return value.numerator


def _largest(weights: Mapping[int, int], reach: Iterable[int]) -> int:
    """Bound |Σ weight_r·z_r|, its partial sums and the weights themselves."""
    sizes = list(reach)
    return sum(abs(weight) * max(1, sizes[r]) for r, weight in weights.items())


def _mean(values: Integers, chosen: NDArray[np.bool_], turn: NDArray[np.bool_]) -> Integers:
    total = np.where(chosen, values, 0).sum(axis=1, keepdims=True)
    count = chosen.sum(axis=1, keepdims=True)
    if ((total % count != 0) & turn).any():
        raise CertificationError("attention averages unequal columns: a code is no integer")
    mean: Integers = total // count
    return mean
