"""Changes of a program's model that leave what it computes as it is, and move its numbers elsewhere.

In exact arithmetic a register can be written larger and read smaller, a unit taken in several parts, a
register said to hold codes that are a little off. Rounding, overflow and the proof's own radii are
another matter: so these changes go where bounds are tight.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.programs.blueprint import (
    ProgramBlueprint,
    ProgramLayer,
    ProjectedHead,
    Register,
)

FACTORS = (
    *(Fraction(3), Fraction(1, 3), Fraction(7, 5), Fraction(2) ** 20, Fraction(1, 2**20)),
    *(Fraction(2) ** 60, Fraction(1, 2**60), Fraction(2) ** 110, Fraction(1, 2**110)),
    *(1 + Fraction(1, 2**20), Fraction(255, 256), Fraction(2) ** 400, Fraction(1, 2**400)),
)
OFFSETS = (Fraction(1, 64), Fraction(-1, 3), Fraction(1, 1000), Fraction(1, 2**30), Fraction(1, 8))
COPIES = (2, 3, 7, 40)
Change = Callable[[random.Random, ProgramBlueprint], ProgramBlueprint]


def scaled(
    matrix: Matrix,
    factor: Fraction,
    rows: Collection[int] | None = None,
    columns: Collection[int] | None = None,
) -> Matrix:
    """Return a matrix with some rows, or columns, times a factor."""
    return Matrix(
        *matrix.shape,
        {
            (i, j): v * factor
            if (rows is None or i in rows) and (columns is None or j in columns)
            else v
            for (i, j), v in matrix.entries.items()
        },
    )


def larger_register(
    rng: random.Random, blueprint: ProgramBlueprint, factor: Fraction | None = None
) -> ProgramBlueprint:
    """Write a register larger by a factor, and read it smaller."""
    at, factor = rng.randrange(len(blueprint.registers)), factor or rng.choice(FACTORS)
    own = blueprint.registers[at]
    places, less = set(own.directions), 1 / factor

    def head(h: ProjectedHead) -> ProjectedHead:
        read = (scaled(m, less, columns=places) for m in (h.query, h.key, h.value))
        return ProjectedHead(*read, scaled(h.output, factor, rows=places))

    def units(ff: FeedForward) -> FeedForward:
        w1, w2 = scaled(ff.w1, less, columns=places), scaled(ff.w2, factor, rows=places)
        return FeedForward(w1, ff.b1, w2, ff.b2)

    register = replace(own, steps=scaled(own.steps, factor))
    return replace(
        blueprint,
        tokens=scaled(blueprint.tokens, factor, columns=places),
        positions=scaled(blueprint.positions, factor, columns=places),
        layers=tuple(
            ProgramLayer(tuple(map(head, layer.heads)), units(layer.feed_forward))
            for layer in blueprint.layers
        ),
        readout=scaled(blueprint.readout, less, columns=places),
        registers=(*blueprint.registers[:at], register, *blueprint.registers[at + 1 :]),
    )


def other_claim(
    rng: random.Random, blueprint: ProgramBlueprint, offset: Fraction | None = None
) -> ProgramBlueprint:
    """Say of a register that it holds codes which are off by a number."""
    at, offset = rng.randrange(len(blueprint.registers)), offset or rng.choice(OFFSETS)
    own = blueprint.registers[at]
    column = rng.randrange(len(own.directions)) if own.directions else 0
    entries = dict(own.steps.entries)
    if own.directions and own.steps.rows:
        entries[0, column] = entries.get((0, column), Fraction(0)) + offset
    register = Register(own.node, own.term, own.directions, Matrix.of(*own.steps.shape, entries))
    return replace(
        blueprint,
        registers=(*blueprint.registers[:at], register, *blueprint.registers[at + 1 :]),
    )


def other_head(
    rng: random.Random, blueprint: ProgramBlueprint, factor: Fraction | None = None
) -> ProgramBlueprint:
    """Take a factor from keys to queries, or from what is mixed to what is written."""

    def change(head: ProjectedHead) -> ProjectedHead:
        more, query, key, value, output = (
            *(factor or rng.choice(FACTORS), head.query, head.key, head.value, head.output),
        )
        if rng.random() < 0.5:
            return ProjectedHead(scaled(query, more), scaled(key, 1 / more), value, output)
        return ProjectedHead(query, key, scaled(value, more), scaled(output, 1 / more))

    return _in_one_layer(rng, blueprint, change, lambda ff: ff)


def sharper_head(rng: random.Random, blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Make the scores of a head larger or smaller: softmax leaks less or more."""
    factor = rng.choice(
        (Fraction(2), Fraction(1, 2), Fraction(1, 8), Fraction(1, 32), Fraction(64))
    )

    def change(head: ProjectedHead) -> ProjectedHead:
        return ProjectedHead(scaled(head.query, factor), head.key, head.value, head.output)

    return _in_one_layer(rng, blueprint, change, lambda ff: ff)


def other_units(
    rng: random.Random, blueprint: ProgramBlueprint, factor: Fraction | None = None
) -> ProgramBlueprint:
    """Make units larger and what they write smaller, or take each in several equal parts."""

    def change(ff: FeedForward) -> FeedForward:
        more, copies, count = factor or rng.choice(FACTORS), rng.choice(COPIES), ff.w1.rows
        if factor or rng.random() < 0.5:
            w2 = scaled(ff.w2, 1 / more)
            return FeedForward(scaled(ff.w1, more), scaled(ff.b1, more), w2, ff.b2)
        w1, b1 = (
            Matrix(
                copies * count,
                m.columns,
                {(i + k * count, j): v for k in range(copies) for (i, j), v in m.entries.items()},
            )
            for m in (ff.w1, ff.b1)
        )
        parts = {
            (i, j + k * count): v / copies
            for k in range(copies)
            for (i, j), v in ff.w2.entries.items()
        }
        return FeedForward(w1, b1, Matrix(ff.w2.rows, copies * count, parts), ff.b2)

    return _in_one_layer(rng, blueprint, lambda head: head, change)


def other_rule(rng: random.Random, blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Exchange softmax and hard maxima."""
    rules = {Rule.SOFTMAX: Rule.HARD_MAX, Rule.HARD_MAX: Rule.SOFTMAX}
    return replace(blueprint, selection=Selection(rules[blueprint.selection.rule]))


def other_order(rng: random.Random, blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Exchange two rows of an embedding: tokens, positions or the beginning."""
    name = rng.choice(("tokens", "positions"))
    matrix = getattr(blueprint, name)
    a, b = rng.randrange(matrix.rows), rng.randrange(matrix.rows)
    moved = {a: b, b: a}
    entries = {(moved.get(i, i), j): v for (i, j), v in matrix.entries.items()}
    return replace(blueprint, **{name: Matrix.of(*matrix.shape, entries)})


def _in_one_layer(
    rng: random.Random,
    blueprint: ProgramBlueprint,
    head: Callable[[ProjectedHead], ProjectedHead],
    units: Callable[[FeedForward], FeedForward],
) -> ProgramBlueprint:
    if not blueprint.layers:
        return blueprint
    at = rng.randrange(len(blueprint.layers))
    layer = blueprint.layers[at]
    new = ProgramLayer(tuple(map(head, layer.heads)), units(layer.feed_forward))
    return replace(blueprint, layers=(*blueprint.layers[:at], new, *blueprint.layers[at + 1 :]))


GAUGES: tuple[Change, ...] = (
    larger_register,
    larger_register,
    other_claim,
    other_claim,
    other_head,
    sharper_head,
    other_units,
    other_units,
    other_rule,
    other_order,
)
