"""Why a sequence with a coordinate outside the support has no key, in any column.

Let every column with an outside coordinate have an id of at most −M, and every other one of 0 … K − 1,
all integers (an inside column with a negative id would have a negative key, or be rejected as well). In
the forms with K selective shifts (:func:`selective_shifts`) and a global one: a column with a negative
id is never met, for both heads choose the smallest column then. As long as there is one, the smallest
id is at most −M, so the first inside column that is met moves up by at least K·M, and the global shift
gives every inside column at least G·K·M. Outside columns stay negative and get the smallest column,
which is negative. So no code is one of the keys, which lie between 0 and t_r, if G·K·M > t_r.

In the paper's form such columns are then set to 0, which is no key where all keys are positive.

In the form with sums (:func:`number_and_mean`) an outside column has no id, and the number it is given
instead is so negative that the sum over the tokens is, and every code is a whole cell below all keys.
"""

from __future__ import annotations

from fractions import Fraction

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    PiecewiseLinear,
    Rule,
)
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.proof.cells import Quantised, Row

Ids = dict[int, Fraction]
"""What an id reads: {row: weight}, in cells."""


def outside_goes_to_zero(
    blueprint: SequenceBlueprint,
    after: Quantised,
    unit: Fraction,
    smallest_key: int,
    largest_key: int,
) -> bool:
    """Whether the layers are shown to send every sequence with an outside coordinate to 0."""
    read = {r: v * unit for _, r, v in blueprint.code}
    if after.outside is None or smallest_key < 0:
        return False
    depth = -largest_outside(after, read)
    if depth <= 0:
        return False
    _, mapping, *reject, _ = blueprint.stages
    shifts = selective_shifts(mapping, blueprint, unit)
    if shifts is None:
        return (
            not reject
            and starts_at_zero(blueprint)
            and sums_are_negative(mapping, blueprint, after, read, unit)
        )
    K, G = shifts
    if largest_inside(after, read) >= K or G * K * depth <= largest_key:
        return False
    if not reject:
        return starts_at_zero(blueprint)
    return smallest_key > 0 and rejects(reject, blueprint, after, unit, unit * G * K * depth)


def starts_at_zero(blueprint: SequenceBlueprint) -> bool:
    """Whether the rows of the output are 0 until the last stage writes to them."""
    outputs = {row for _, row in blueprint.readout.entries}
    embedding = blueprint.embedding
    writes = [embedding.features, embedding.constant, embedding.positions]
    for stage in blueprint.stages[:-1]:
        writes += stage_writes(stage)
    return outputs.isdisjoint(row for matrix in writes for row, _ in matrix.entries)


def stage_writes(stage: Stage) -> list[Matrix]:
    """Return the matrices of a stage whose rows are those of the stream that it writes to."""
    writes = []
    for part in stage.parts:
        if isinstance(part, Attention):
            writes += [head.value for head in part.heads]
        else:
            writes += [part.w2, part.b2]
    return writes


def number_and_mean(mapping: Stage) -> tuple[FeedForward, int, int, Fraction] | None:
    """Return (look-up, row, source, weight) where a stage is a look-up, and then one head of equal
    scores that adds weight times the mean of the source row to the row; None where it is not.

    Where all scores are 0, hard maximum and softmax both average all columns.
    """
    if len(mapping.parts) != 2:
        return None
    number, mean = mapping.parts
    if not (isinstance(number, FeedForward) and isinstance(mean, Attention)):
        return None
    if number.successive is not None:
        return None
    if len(mean.heads) != 1 or mean.heads[0].value.nonzeros != 1:
        return None
    (head,) = mean.heads
    biased = isinstance(head, BiasedHead) and head.bias.nonzeros
    if head.query.nonzeros or biased:
        return None
    return number, *next(iter(head.value))


def sums_are_negative(
    mapping: Stage, blueprint: SequenceBlueprint, after: Quantised, read: Ids, unit: Fraction
) -> bool:
    """Whether one column without an id takes every code a cell below 0 in the form with sums."""
    found = number_and_mean(mapping)
    if found is None:
        return False
    number, row, source, weight = found
    n = blueprint.tokens
    if read != {row: 1} or weight <= 0:
        return False
    # Only the look-up writes to the source, and it writes to nothing that the code reads: these differ.
    embedding = blueprint.embedding
    before = [embedding.features, embedding.constant, embedding.positions]
    before += stage_writes(blueprint.stages[0])
    if any(place == source for matrix in before for place, _ in matrix.entries):
        return False
    if any(place == row for matrix in (number.w2, number.b2) for place, _ in matrix.entries):
        return False
    reads_ids = all(
        number.w1.by_row.get(m) == [(row, Fraction(1))] and number.b1[m, 0] <= 0
        for m in range(number.w1.rows)
    )
    rest = number.b2[source, 0]
    largest = max((v for r, _, v in number.w2 if r == source), default=Fraction(0)) + rest
    most = unit * largest_inside(after, read)
    # Such a code need not be an integer, and units fire up to a cell below their keys.
    return reads_ids and most + weight * ((n - 1) * max(largest, rest) + rest) / n <= -unit


def largest_inside(after: Quantised, read: Ids) -> Fraction:
    """Return the largest id of a column inside."""
    return max(
        _value(base, read) + sum(max(_value(c, read) for c in r) for r in cells)
        for base, cells in zip(after.base, after.cells, strict=True)
    )


def _value(row: Row, read: Ids) -> Fraction:
    return sum((v * row[r] for r, v in read.items()), Fraction(0))


def largest_outside(after: Quantised, read: Ids) -> Fraction:
    """Return the largest id of a column with a coordinate outside."""
    best = []
    for base, cells, outside in zip(after.base, after.cells, after.outside or (), strict=True):
        sides = [max(_value(c, read) for c in side) for side in outside]
        most = [
            max(side, *(_value(c, read) for c in inside))
            for side, inside in zip(sides, cells, strict=True)
        ]
        start = _value(base, read) + sum(most)
        best += [start - most[r] + side for r, side in enumerate(sides)]
    return max(best)


def selective_shifts(
    mapping: Stage, blueprint: SequenceBlueprint, unit: Fraction
) -> tuple[int, Fraction] | None:
    """Return K and G where a stage is K selective shifts and a global one, layer for layer.

    With id = u·z in cells: layer k adds K·(largest − smallest id) to the columns of id k, by heads that
    score (id_i − k ± ½)·id_j; the last adds G times the largest id by scores id_i·id_j.
    """
    *selective, last = mapping.parts or (None,)
    w, K, half = blueprint.width, len(selective), Fraction(1, 2)
    read = Matrix.of(1, w, {place: v * unit for place, v in blueprint.code.entries.items()})
    home = next((r for _, r, v in read if v == 1), None)
    if home is None or not isinstance(last, Attention):
        return None

    def shift(bias: Fraction, weight: Fraction) -> BiasedHead:
        value = Matrix.of(w, w, {(home, r): weight * v for _, r, v in read})
        return BiasedHead(read, read, value, Matrix.of(1, 1, {(0, 0): bias * unit}))

    def is_layer(part: object, *heads: BiasedHead) -> bool:
        return (
            isinstance(part, Attention)
            and part.selection.rule is Rule.HARD_MAX
            and part.heads == heads
        )

    G = last.heads[0].value[home, home]
    if not is_layer(last, shift(Fraction(0), G)):
        return None
    for k, part in enumerate(selective):
        pair = shift(half - k, Fraction(K)), shift(-half - k, Fraction(-K))
        if not is_layer(part, *pair):
            return None
    return K, G


def rejects(
    stages: list[Stage],
    blueprint: SequenceBlueprint,
    after: Quantised,
    unit: Fraction,
    lifted: Fraction,
) -> bool:
    """Whether columns with uᵀz ≥ ``lifted`` > 0 or uᵀz < 0 become 0 in the paper's form.

    A row of such a column is at most uᵀz, or 0 where that is negative, plus what the other rows take
    away from it. The first layer lowers all rows by more, the others set negative rows to 0.
    """
    band = reject_band(stages, blueprint, unit)
    if band is None:
        return False
    low, high, strength = band
    columns = [c for line in (after.cells, after.outside or ()) for i in line for r in i for c in r]
    columns += after.base
    far = unit * max(abs(v) for column in columns for v in column) * (1 + blueprint.dim)
    slack = far * sum(abs(v) * unit for _, _, v in blueprint.code) + far
    return min(strength * (lifted - high) - lifted, strength * low) > slack


def reject_band(
    stages: list[Stage], blueprint: SequenceBlueprint, unit: Fraction
) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return (low, high, s) where stages are the paper's, layer for layer; None where they are not.

    The first layer lowers all rows by s times the distance of uᵀz from [low, high], s ≥ 0, the others
    set negative rows to 0.
    """
    w = blueprint.width
    layers = [layer for stage in stages for layer in stage.layers()]
    band = layers[0] if layers else None
    if not isinstance(band, FeedForward) or len(band.activation.breaks) != 2:
        return None
    low, high = band.activation.breaks
    strength = abs(band.w2[0, 0])
    read = {place: v * unit for place, v in blueprint.code.entries.items()}
    expected = [
        FeedForward(
            Matrix.of(1, w, read),
            Matrix.of(1, 1, {}),
            Matrix.of(w, 1, {(row, 0): -strength for row in range(w)}),
            Matrix.of(w, 1, {}),
            PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high))),
        )
    ]
    negative = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))
    for row in range(w):
        one = Matrix.of(1, w, {(0, row): 1}), Matrix.of(w, 1, {(row, 0): 1})
        expected.append(
            FeedForward(one[0], Matrix.of(1, 1, {}), one[1], Matrix.of(w, 1, {}), negative)
        )
    return (low, high, strength) if layers == expected else None
