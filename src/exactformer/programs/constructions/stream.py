"""The stream under construction: directions, registers, heads and units, by the time they act.

Time runs in half-steps: 0 is the embedding, 2ℓ + 1 the attention of layer ℓ, 2ℓ + 2 its ReLUs. What is
read was written before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from exactformer.core.layers import FeedForward, Selection
from exactformer.core.matrix import Matrix, column
from exactformer.programs.blueprint import (
    ProgramBlueprint,
    ProgramLayer,
    ProjectedHead,
    Register,
)

Weights = dict[int, Fraction]
"""A functional of the stream, by direction."""


@dataclass(frozen=True)
class Reading:
    """Functionals of the stream, zero at the beginning token, and when they can be read."""

    weights: tuple[Weights, ...]
    time: int
    rough: tuple[int, ...] = ()
    """Directions that are right up to a small error only: from a head, or from several means."""
    moved: bool = False
    """Whether they come straight from a head."""


@dataclass
class HeadDraft:
    """Rows of a head: what queries and keys read, what is moved, and where it is written."""

    queries: list[Weights]
    keys: list[Weights]
    values: list[Weights] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


Unit = tuple[Weights, Fraction, Weights]
"""What a ReLU reads, its bias, and what it writes."""


class Stream:
    """All of a transformer but its shape, which is known at the end."""

    def __init__(self, tokens: int, positions: int, beginning: bool) -> None:
        self.beginning = beginning
        self.names: list[str] = []
        self.at_beginning: Weights = {}
        """What the beginning token has in a direction."""
        self.token_rows: list[Weights] = [{} for _ in range(tokens + beginning)]
        self.position_rows: list[Weights] = [{} for _ in range(positions + beginning)]
        self.registers: list[Register] = []
        self.heads: dict[int, dict[object, HeadDraft]] = {}
        self.units: dict[int, list[Unit]] = {}
        (self.one,) = self.directions(["one"])
        for row in self.token_rows[:tokens]:
            row[self.one] = Fraction(1)
        self.register(None, None, [self.one], [{self.one: Fraction(1)}])
        if beginning:
            (self.bos,) = self.directions(["beginning"], [Fraction(1)])
            self.token_rows[-1][self.bos] = Fraction(1)
            self.register(None, None, [self.bos], [{}])

    def directions(self, names: Iterable[str], beginning: Sequence[Fraction] = ()) -> list[int]:
        """Return new directions, with what the beginning token has in them."""
        start = len(self.names)
        self.names += names
        new = list(range(start, len(self.names)))
        for direction, value in zip(new, beginning, strict=False):
            if value and self.beginning:
                self.at_beginning[direction] = value
        return new

    def register(
        self, node: int | None, term: int | None, places: Sequence[int], codes: Sequence[Weights]
    ) -> None:
        """Note what directions are meant to hold: a code for every value of a node."""
        at = {place: k for k, place in enumerate(places)}
        entries: dict[tuple[int, int], Fraction] = {}
        before: Weights = {}
        for row, code in enumerate(codes):
            change = added(code, scaled(before, -1))
            entries.update(((row, at[place]), v) for place, v in change.items())
            before = code
        self.register_steps(node, term, places, len(codes), entries)

    def register_levels(
        self, node: int, term: int | None, places: Sequence[int], levels: Sequence[int]
    ) -> None:
        """Note bits that code a node: value k has as many of them as ``levels[k]``, the first ones."""
        entries: dict[tuple[int, int], Fraction] = {}
        before = 0
        for row, level in enumerate(levels):
            sign = Fraction(1 if level > before else -1)
            for bit in range(min(level, before), max(level, before)):
                entries[row, bit] = sign
            before = level
        self.register_steps(node, term, places, len(levels), entries)

    def register_steps(
        self,
        node: int | None,
        term: int | None,
        places: Sequence[int],
        values: int,
        entries: Mapping[tuple[int, int], Fraction],
    ) -> None:
        """Note what directions are meant to hold, by the steps from each value's code to the next."""
        last = {
            (values, at): self.at_beginning[place]
            for at, place in enumerate(places)
            if self.at_beginning.get(place)
        }
        steps = Matrix(values + self.beginning, len(places), {**entries, **last})
        self.registers.append(Register(node, term, tuple(places), steps))

    def zeroed(self, weights: Mapping[int, Fraction]) -> Weights:
        """Return a functional that is the same off the beginning token, and zero there."""
        found = {k: v for k, v in weights.items() if v}
        if not self.beginning:
            return found
        here = sum(
            (v * self.at_beginning.get(k, Fraction(0)) for k, v in found.items()), Fraction(0)
        )
        return added(found, {self.bos: -here})

    def head(
        self, key: object, time: int, queries: list[Weights], keys: list[Weights]
    ) -> HeadDraft:
        """Return the head with these scores in the layer of a time; the same one where there is one."""
        layer = self.heads.setdefault((time - 1) // 2, {})
        if key not in layer:
            layer[key] = HeadDraft(queries, keys)
        return layer[key]

    def unit(self, time: int, reads: Weights, bias: Fraction, writes: Weights) -> None:
        """Add a ReLU; at the beginning token it is made to be off."""
        if self.beginning:
            here = bias + sum(
                (v * self.at_beginning.get(k, Fraction(0)) for k, v in reads.items()), Fraction(0)
            )
            if here > -Fraction(1, 4):
                reads = added(reads, {self.bos: -(here.__ceil__() + 1)})
        self.units.setdefault((time - 2) // 2, []).append((reads, bias, writes))

    def blueprint(
        self,
        readout: Sequence[Weights],
        selection: Selection,
        causal: bool,
        metadata: Mapping[str, str],
    ) -> ProgramBlueprint:
        """Return what was planned as matrices."""
        width = len(self.names)
        last = max([*self.heads, *self.units], default=-1)
        layers = []
        for number in range(last + 1):
            heads = tuple(
                ProjectedHead(
                    _rows(draft.queries, width),
                    _rows(draft.keys, width),
                    _rows(draft.values, width),
                    _columns([{d: Fraction(1)} for d in draft.outputs], width),
                )
                for draft in self.heads.get(number, {}).values()
            )
            units = self.units.get(number, [])
            feed_forward = FeedForward(
                _rows([unit[0] for unit in units], width),
                column([unit[1] for unit in units]),
                _columns([unit[2] for unit in units], width),
                Matrix(width, 1, {}),
            )
            layers.append(ProgramLayer(heads, feed_forward))
        return ProgramBlueprint(
            _rows(self.token_rows, width),
            _rows(self.position_rows, width),
            tuple(layers),
            _rows(readout, width),
            selection,
            causal,
            self.beginning,
            tuple(self.registers),
            tuple(self.names),
            dict(metadata),
        )


def added(*parts: Mapping[int, Fraction | int]) -> Weights:
    """Return the sum of functionals."""
    found: Weights = {}
    for part in parts:
        for k, v in part.items():
            found[k] = found.get(k, Fraction(0)) + v
    return {k: v for k, v in found.items() if v}


def scaled(weights: Mapping[int, Fraction], factor: Fraction | int) -> Weights:
    """Return a multiple of a functional."""
    return {k: v * factor for k, v in weights.items()} if factor else {}


def _rows(rows: Sequence[Mapping[int, Fraction]], width: int) -> Matrix:
    entries = {(i, j): row[j] for i, row in enumerate(rows) for j in sorted(row)}
    return Matrix(len(rows), width, entries)


def _columns(columns: Sequence[Mapping[int, Fraction]], width: int) -> Matrix:
    entries = {(i, j): v for j, column in enumerate(columns) for i, v in column.items()}
    return Matrix(width, len(columns), {place: entries[place] for place in sorted(entries)})
