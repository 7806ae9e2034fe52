"""Sequence maps whose layers were changed so that rounding in float64 matters, or almost.

A third of a cell is not a binary number, keys are large where values are, and biases and ends of units
are moved towards the next decision. The proof of rounding is asked about every such blueprint, whether
it is certified or not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from exactformer.core.layers import Attention, BiasedHead, FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import Grid, GridTable
from tests.cases.forged_sequences import widened, with_parts
from tests.cases.sequences import random_table
from tests.golden.case import Case

COUNT = 120
GRIDS = (
    Grid(2, 1, 3), Grid(2, 1, 6), Grid(2, 1, 5), Grid(3, 1, 3), Grid(2, 2, 3), Grid(2, 1, 4),
    Grid(2, 1, 3, positional=True), Grid(2, 1, 2, positional=True),
)  # fmt: skip
SIZES = (1, 1, 1, 10**9, 10**12, 10**13, 5 * 10**13, 10**14, 10**16)
"""Of the values of the table, which the keys have to exceed."""
MOVES = tuple(Fraction(p, 16) for p in (1, 2, 4, 6, 7, 8, 8, 8, 8, 8, 8, 9, 12, 15, 16))
"""Parts of a cell; half of one is where the next decision mostly is."""
STAGES = ("contextual mapping", "reject", "values")
Parts = list[Any]


@dataclass(frozen=True)
class Layered:
    """A blueprint whose rounding is asked for, and its table."""

    blueprint: SequenceBlueprint
    table: GridTable


def cases() -> Iterator[Case]:
    """Yield blueprints with one to three changes."""
    for seed in range(COUNT):
        yield Case(f"layers changed, {seed}", partial(changed, seed), short=True)


def changed(seed: int) -> Layered:
    """Return the blueprint of a seed."""
    rng = random.Random(f"layers {seed}")
    where = rng.choice(GRIDS)
    form = rng.choice(("paper", "paper", "paper", "compact", "four-layer"))
    where = replace(where, repeats=form == "four-layer")
    size, known = rng.choice(SIZES), random_table(where, seed)
    values = {
        ids: [[v * size for v in c] for c in columns] for ids, columns in known.values.items()
    }
    table = GridTable.of(where, values)
    blueprint = SEQUENCE_FORMS[form](table)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        blueprint = rng.choice(CHANGES)(rng, blueprint)
    return Layered(blueprint, table)


def _moved(rng: random.Random, blueprint: SequenceBlueprint) -> Fraction:
    """Return a part of a cell, up or down, at times very near to the whole or the half."""
    near = rng.choice((0, 0, 0, Fraction(1, 2**20), Fraction(1, 2**50), Fraction(1, 2**60)))
    return rng.choice((1, -1)) * (rng.choice(MOVES) + rng.choice((1, -1)) * near) * blueprint.delta


def _part(
    rng: random.Random,
    blueprint: SequenceBlueprint,
    kind: type,
    change: Callable[[Any], Any],
) -> SequenceBlueprint:
    """Change one of the parts of a kind, if there is one."""
    places = [
        (stage.name, p)
        for stage in blueprint.stages
        if stage.name in STAGES
        for p, part in enumerate(stage.parts)
        if isinstance(part, kind)
    ]
    if not places:
        return blueprint
    name, at = rng.choice(places)

    def put(parts: Parts) -> Parts:
        return [change(part) if p == at else part for p, part in enumerate(parts)]

    return with_parts(blueprint, name, put)


def _bias(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Move the bias of a head towards the next id, or beyond."""
    by = _moved(rng, blueprint)

    def change(layer: Attention) -> Attention:
        k = rng.randrange(len(layer.heads))
        head = layer.heads[k]
        if not isinstance(head, BiasedHead):
            return layer
        bias = Matrix.of(1, 1, {(0, 0): head.bias[0, 0] + by})
        heads = (*layer.heads[:k], replace(head, bias=bias), *layer.heads[k + 1 :])
        return replace(layer, heads=heads)

    return _part(rng, blueprint, Attention, change)


def _weights(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Multiply the weights of a head's query, key or value; opposite answers no longer cancel."""
    factor = rng.choice((2, 3, -1, 7, 2**20, 2**45))
    which = rng.choice(("query", "key", "value"))

    def change(layer: Attention) -> Attention:
        k = rng.randrange(len(layer.heads))
        old = getattr(layer.heads[k], which)
        new = Matrix.of(*old.shape, {place: v * factor for place, v in old.entries.items()})
        heads = list(layer.heads)
        heads[k] = replace(heads[k], **{which: new})
        return replace(layer, heads=tuple(heads))

    return _part(rng, blueprint, Attention, change)


def _heads(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Take away a head, exchange two, or let one answer twice."""
    kind = rng.randrange(3)

    def change(layer: Attention) -> Attention:
        heads = layer.heads
        chosen = (heads[1:], heads[::-1], (*heads, heads[0]))[kind]
        return replace(layer, heads=chosen or heads)

    return _part(rng, blueprint, Attention, change)


def _ends(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Move an end of the units of a layer."""
    by = _moved(rng, blueprint)

    def change(layer: FeedForward) -> FeedForward:
        known = layer.activation
        if not known.breaks:
            return layer
        at = rng.randrange(len(known.breaks))
        breaks = [b + by if k == at else b for k, b in enumerate(known.breaks)]
        if sorted(set(breaks)) != breaks:
            return layer
        return replace(layer, activation=PiecewiseLinear.of(breaks, known.pieces))

    return _part(rng, blueprint, FeedForward, change)


def _in_turn(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Let the units of a layer act one after another, or all at once."""

    def change(layer: FeedForward) -> FeedForward:
        return replace(layer, successive=rng.choice((None, 1)))

    return _part(rng, blueprint, FeedForward, change)


def _entry(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Add an integer, or half of one, to a weight of a layer's units."""
    which, by = rng.choice(("w1", "b1", "w2", "b2")), rng.choice((1, -1, 3, Fraction(1, 2), 2**53))

    def change(layer: FeedForward) -> FeedForward:
        old = getattr(layer, which)
        place = rng.choice([*old.entries] or [(0, 0)])
        return replace(
            layer, **{which: Matrix.of(*old.shape, {**old.entries, place: old[place] + by})}
        )

    return _part(rng, blueprint, FeedForward, change)


def _readout(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Read outputs with another weight."""
    old = blueprint.readout
    entries = {place: v * rng.choice((1, 2)) for place, v in old.entries.items()}
    return replace(blueprint, readout=Matrix.of(*old.shape, entries))


def _cell(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Let a cell be said to measure something else."""
    return replace(blueprint, delta=rng.choice((Fraction(1, 5), Fraction(1, 4), Fraction(1, 7))))


def _row(rng: random.Random, blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Add a row that nothing reads."""
    return widened(blueprint)


CHANGES = (
    *(_bias, _bias, _weights, _weights, _heads, _ends, _ends, _ends, _in_turn, _entry, _entry),
    *(_readout, _cell, _row),
)
