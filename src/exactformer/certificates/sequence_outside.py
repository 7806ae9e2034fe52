"""Why a sequence with a coordinate outside the support has no key, in any column.

Let every column with an outside coordinate have an id of at most −M. In the forms with shifts:
as long as there is one, the smallest id is at most −M, so the first inside column that is met moves up
by at least K·M, and the global shift gives every inside column at least G·K·M. Outside columns stay
negative and get the smallest column, which is negative. So G·K·M > t_r and t_l ≥ 0 suffice.

In the paper's form such columns are then set to 0, which is no key.

In the four-layer form an outside column has no id, and the number it is given instead is so negative
that the sum over the tokens is, and with it every key.
"""

from __future__ import annotations

from fractions import Fraction

from exactformer.blueprint.layers import (
    Attention,
    BiasedHead,
    PiecewiseFeedForward,
    PiecewiseLinear,
    Rule,
)
from exactformer.blueprint.matrix import Matrix
from exactformer.blueprint.sequence import SequenceBlueprint, Successive
from exactformer.certificates.sequence_cells import Quantised, Row

NEGATIVE = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))


def outside_goes_to_zero(
    blueprint: SequenceBlueprint,
    after: Quantised,
    unit: Fraction,
    smallest_key: int,
    largest_key: int,
) -> bool:
    """Whether the layers are shown to send every sequence with an outside coordinate to 0."""
    if after.outside is None or smallest_key < 0:
        return False
    read = {r: v * unit for _, r, v in blueprint.code}
    depth = -largest_outside(after, read)
    if depth <= 0:
        return False
    if isinstance(blueprint.stage("contextual mapping").parts[0], PiecewiseFeedForward):
        return starts_at_zero(blueprint) and sums_are_negative(blueprint, after, read)
    found = shifts(blueprint, unit)
    if found is None:
        return False
    lifted = found[0] * found[1] * depth
    if lifted <= largest_key:
        return False
    if any(stage.name == "reject" for stage in blueprint.stages):
        return rejects(blueprint, after, unit, unit * lifted)
    return starts_at_zero(blueprint)


def starts_at_zero(blueprint: SequenceBlueprint) -> bool:
    """Whether the rows of the output are 0 until the value layers write to them."""
    outputs = {row for _, row in blueprint.readout.entries}
    embedding = blueprint.embedding
    writes = [embedding.features, embedding.constant, embedding.positions]
    for stage in blueprint.stages:
        if stage.name == "values":
            break
        for part in stage.parts:
            if isinstance(part, Attention):
                writes += [head.value for head in part.heads]
            else:
                layer = part.units if isinstance(part, Successive) else part
                writes += [layer.w2, layer.b2]
    return outputs.isdisjoint(row for matrix in writes for row, _ in matrix.entries)


def sums_are_negative(
    blueprint: SequenceBlueprint, after: Quantised, read: dict[int, Fraction]
) -> bool:
    """Whether one column without an id makes every key negative in the four-layer form."""
    number, *rest_of_it = blueprint.stage("contextual mapping").parts
    total = rest_of_it[-1]
    n = blueprint.tokens
    if not (
        len(rest_of_it) == 1
        and isinstance(number, PiecewiseFeedForward)
        and isinstance(total, Attention)
        and len(total.heads) == 1
        and not total.heads[0].query.nonzeros
        and total.heads[0].value.nonzeros == 1
    ):
        return False
    (row, source, weight) = next(iter(total.heads[0].value))
    rest = number.b2[source, 0]
    largest = max(v for r, _, v in number.w2 if r == source) + rest
    most = largest_inside(after, read)
    reads_ids = read == {row: 1} and all(
        number.w1.by_row.get(m) == [(row, Fraction(1))] for m in range(number.w1.rows)
    )
    ids_only = all(-b >= 0 for _, _, b in number.b1)
    return reads_ids and ids_only and most + weight * ((n - 1) * largest + rest) / n < 0


def largest_inside(after: Quantised, read: dict[int, Fraction]) -> Fraction:
    """Return the largest id of a column inside."""
    return max(
        _value(base, read) + sum(max(_value(c, read) for c in r) for r in cells)
        for base, cells in zip(after.base, after.cells, strict=True)
    )


def _value(row: Row, read: dict[int, Fraction]) -> Fraction:
    return sum((v * row[r] for r, v in read.items()), Fraction(0))


def largest_outside(after: Quantised, read: dict[int, Fraction]) -> Fraction:
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


def shifts(blueprint: SequenceBlueprint, unit: Fraction) -> tuple[Fraction, Fraction] | None:
    """Return K and G where the contextual mapping is the theorem's, layer for layer."""
    *selective, last = blueprint.stage("contextual mapping").parts
    read = Matrix.of(1, blueprint.width, {p: v * unit for p, v in blueprint.code.entries.items()})
    home = next((r for _, r, v in read if v == 1), None)
    K, half = Fraction(len(selective)), Fraction(1, 2)

    def heads(part: object, *expected: tuple[Fraction, Fraction]) -> bool:
        return (
            isinstance(part, Attention)
            and part.selection.rule is Rule.HARD_MAX
            and len(part.heads) == len(expected)
            and all(
                isinstance(head, BiasedHead)
                and head.query == head.key == read
                and head.bias[0, 0] == bias * unit
                and dict(head.value.entries) == {(home, r): weight * v for _, r, v in read}
                for head, (bias, weight) in zip(part.heads, expected, strict=True)
            )
        )

    if home is None or not isinstance(last, Attention) or len(last.heads) != 1:
        return None
    shift = last.heads[0].value[home, home]
    theirs = all(heads(p, (half - k, K), (-half - k, -K)) for k, p in enumerate(selective))
    return (K, shift) if theirs and heads(last, (Fraction(0), shift)) else None


def rejects(
    blueprint: SequenceBlueprint, after: Quantised, unit: Fraction, lifted: Fraction
) -> bool:
    """Whether columns with uᵀz ≥ ``lifted`` or uᵀz < 0 become 0 in the paper's form.

    A row of such a column is at most uᵀz, or 0 where that is negative, plus what the outside rows
    take away from it. The first layer lowers all rows by more, the others set negative rows to 0.
    """
    band, *clean = blueprint.stage("reject").layers()
    w = blueprint.width
    if not isinstance(band, PiecewiseFeedForward) or len(clean) != w:
        return False
    one = Fraction(1)
    for row, layer in enumerate(clean):
        if not (
            isinstance(layer, PiecewiseFeedForward)
            and layer.activation == NEGATIVE
            and dict(layer.w1.entries) == {(0, row): one}
            and dict(layer.w2.entries) == {(row, 0): one}
            and not (layer.b1.nonzeros or layer.b2.nonzeros)
        ):
            return False
    low, high = band.activation.breaks
    hat = PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high)))
    strengths = {-band.w2[row, 0] for row in range(w)}
    read = {place: v * unit for place, v in blueprint.code.entries.items()}
    if band.activation != hat or dict(band.w1.entries) != read or len(strengths) != 1:
        return False
    columns = [c for line in (after.cells, after.outside or ()) for i in line for r in i for c in r]
    far = unit * max(abs(v) for column in columns for v in column)
    slack = far * sum(map(abs, read.values())) + far
    strength = strengths.pop()
    return strength > 1 and min(strength * (lifted - high) - lifted, strength * low) > slack
