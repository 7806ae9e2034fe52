"""Sequence blueprints that no construction makes, put together by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.run.exact import run_sequence
from tests.cases.sequences import expected, grid, random_table

HALF = Fraction(1, 2)
INDICATOR = PiecewiseLinear.of((-HALF, HALF), ((0, 0), (0, 1), (0, 0)))
NOTHING = PiecewiseLinear.of((), ((0, 0),))


def made(
    form: str, size: tuple[int, int, int] = (1, 2, 4), positional: bool = False
) -> tuple[SequenceBlueprint, GridTable]:
    table = random_table(grid(size, form, positional))
    return SEQUENCE_FORMS[form](table), table


def with_parts(
    blueprint: SequenceBlueprint, name: str, change: Callable[[list[Any]], list[Any]]
) -> SequenceBlueprint:
    stages = [
        Stage(s.name, tuple(change(list(s.parts)))) if s.name == name else s
        for s in blueprint.stages
    ]
    return replace(blueprint, stages=tuple(stages))


def units(
    width: int,
    reads: list[dict[int, Fraction | int]],
    biases: list[Fraction | int],
    writes: list[dict[int, Fraction | int]],
    activation: PiecewiseLinear = INDICATOR,
) -> FeedForward:
    m = len(reads)
    return FeedForward(
        Matrix.of(m, width, {(k, r): v for k, row in enumerate(reads) for r, v in row.items()}),
        Matrix.of(m, 1, {(k, 0): b for k, b in enumerate(biases)}),
        Matrix.of(width, m, {(r, k): v for k, row in enumerate(writes) for r, v in row.items()}),
        Matrix.of(width, 1, {}),
        activation,
    )


def refused(blueprint: SequenceBlueprint, table: GridTable, words: str = "") -> None:
    with pytest.raises(CertificationError, match=words):
        certify_sequence(blueprint, table, exhaustive_work=0)


def is_wrong(blueprint: SequenceBlueprint, table: GridTable) -> bool:
    """Whether some order of some class does not come out of the layers as the table has it."""
    where = table.grid
    for ids in table.values:
        for order in set(permutations(ids)) if not where.positional else [ids]:
            output = run_sequence(blueprint, [where.centre(k) for k in order])
            if output != expected(table, order):
                return True
    return False


def added(matrix: Matrix, entries: Mapping[tuple[int, int], Fraction | int]) -> Matrix:
    """Return a matrix with numbers added to some of its entries."""
    return Matrix.of(
        *matrix.shape, {**matrix.entries, **{p: matrix[p] + v for p, v in entries.items()}}
    )


def with_units(blueprint: SequenceBlueprint, name: str, **changes: Any) -> SequenceBlueprint:
    """Return a blueprint with other matrices, or another activation, in the first part of a stage."""

    def changed(parts: list[Any]) -> list[Any]:
        first, *rest = parts
        return [replace(first, **changes), *rest]

    return with_parts(blueprint, name, changed)


def units_of(blueprint: SequenceBlueprint, name: str) -> Any:
    """Return the units of the first part of a stage."""
    return blueprint.stage(name).parts[0]


def shifts_of(
    code: Mapping[int, int], home: int, unit: Fraction, K: int, G: int, width: int
) -> Stage:
    """Return K selective shifts and a global one that write to a row; the code is in cells."""
    read = Matrix.of(1, width, {(0, r): v for r, v in code.items()})
    hard = Selection(Rule.HARD_MAX)

    def head(bias: Fraction, weight: int) -> BiasedHead:
        value = Matrix.of(width, width, {(home, r): weight * v for _, r, v in read})
        return BiasedHead(read, read, value, Matrix.of(1, 1, {(0, 0): bias * unit}))

    layers = [Attention((head(HALF - k, K), head(-HALF - k, -K)), hard) for k in range(K)]
    return Stage("contextual mapping", (*layers, Attention((head(Fraction(0), G),), hard)))


def widened(blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Return a blueprint with one row more, the last, that nothing reads or writes."""
    w = blueprint.width + 1

    def sized(matrix: Matrix, tall: bool, wide: bool) -> Matrix:
        rows, columns = w if tall else matrix.rows, w if wide else matrix.columns
        return Matrix.of(rows, columns, matrix.entries)

    def part(old: Any) -> Any:
        if isinstance(old, Attention):
            heads = (
                replace(
                    head,
                    query=sized(head.query, False, True),
                    key=sized(head.key, False, True),
                    value=sized(head.value, True, True),
                )
                for head in old.heads
            )
            return replace(old, heads=tuple(heads))
        return replace(
            old,
            w1=sized(old.w1, False, True),
            w2=sized(old.w2, True, False),
            b2=sized(old.b2, True, False),
        )

    embedding = blueprint.embedding
    return replace(
        blueprint,
        dimensions=(*blueprint.dimensions, "another"),
        embedding=replace(
            embedding,
            features=sized(embedding.features, True, False),
            constant=sized(embedding.constant, True, False),
            positions=sized(embedding.positions, True, False),
        ),
        stages=tuple(Stage(s.name, tuple(map(part, s.parts))) for s in blueprint.stages),
        readout=sized(blueprint.readout, False, True),
        code=sized(blueprint.code, False, True),
    )
