"""Why a sequence with a coordinate outside the support has no key, in any column.

Let every column with an outside coordinate have an id of at most −M. In the forms with shifts:
as long as there is one, the smallest id is at most −M, so the first inside column that is met moves up
by at least K·M, and the global shift gives every inside column at least G·K·M. Outside columns stay
negative and get the smallest column, which is negative. So G·K·M > t_r and t_l ≥ 0 suffice.

In the paper's form such columns are then set to 0, which is no key.
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
from exactformer.blueprint.sequence import SequenceBlueprint
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
    found = shifts(blueprint, unit)
    if found is None or depth <= 0:
        return False
    lifted = found[0] * found[1] * depth
    if lifted <= largest_key:
        return False
    return blueprint.form == "compact" or rejects(blueprint, after, unit, unit * lifted)


def largest_outside(after: Quantised, read: dict[int, Fraction]) -> Fraction:
    """Return the largest id of a column with a coordinate outside."""

    def value(row: Row) -> Fraction:
        return sum((v * row[r] for r, v in read.items()), Fraction(0))

    best = []
    for base, cells, outside in zip(after.base, after.cells, after.outside or (), strict=True):
        sides = [max(map(value, side)) for side in outside]
        most = [max(side, *map(value, c)) for side, c in zip(sides, cells, strict=True)]
        best += [value(base) + sum(most) - most[r] + side for r, side in enumerate(sides)]
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
