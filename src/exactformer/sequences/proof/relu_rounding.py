"""What float64 makes of a softened quantiser when each of its ReLUs is evaluated by itself.

A ramp of slope 1/w is the difference of two ReLUs that grow to t/w. For a coordinate beyond it they
cancel, and with u = 2^(−53) at most

    (m + 4)·u·Σ |c|(|σ||t| + |o|)

is left of c·relu(σt + o), m of them added in any order: one rounding of each number, product and
offset, and m of the sum.

* Layers **one after another** on cells that are binary numbers leave nothing. An active ReLU is
  exact, as t and its bend are multiples of a power of two that t/2^53 does not exceed; and in the
  order of the units, in which the module adds them, −(t − b) + (t − b′) = b − b′ and what the ramp
  adds to it are exact too.
* On other cells a coordinate is moved by as much in every layer before its own, and there collapsed.
  So ramps reach so much farther, to both sides.
* Units **side by side** move the id itself, which look-ups have to take for the same integer.
"""

from __future__ import annotations

from fractions import Fraction

from exactformer.core.layers import Attention, FeedForward
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.proof.lookups import cell_unit


def is_exact(soft: SequenceBlueprint) -> bool:
    """Whether the construction's quantiser takes floats to cells without any rounding."""
    unit = cell_unit(soft)
    one_by_one = all(
        isinstance(part, FeedForward) and part.successive for part in soft.stages[0].parts
    )
    return one_by_one and unit.denominator & (unit.denominator - 1) == 0


def quantiser_rounding(soft: SequenceBlueprint, low: Fraction, high: Fraction) -> Fraction:
    """Return how far off the quantiser may be, in cells, for coordinates from low to high."""
    ends = _ends(soft, low, high)
    roundoff = Fraction(1, 2**53) * (1 + Fraction(1, 2**20))  # with products of roundings
    moved: dict[int, Fraction] = {}
    for units in soft.stages[0].parts:
        assert not isinstance(units, Attention)
        together = units.successive or units.w1.rows
        for m in range(units.w1.rows):
            reads, offset = units.w1.by_row.get(m, ()), units.b1[m, 0]
            if offset + sum(max(v * end for end in ends[j]) for j, v in reads) <= 0:
                continue  # nowhere active
            size = abs(offset) + sum(abs(v) * max(map(abs, ends[j])) for j, v in reads)
            for row, weight in units.w2.by_column.get(m, ()):
                grown = (together + 4) * roundoff * abs(weight) * size
                moved[row] = moved.get(row, Fraction(0)) + grown
    return max(moved.values(), default=Fraction(0)) / cell_unit(soft)


def _ends(
    soft: SequenceBlueprint, low: Fraction, high: Fraction
) -> list[tuple[Fraction, Fraction]]:
    """Return between what numbers every row begins, at any position."""
    result = []
    for row in range(soft.width):
        reads = soft.embedding.features.by_row.get(row, ())
        places = [soft.embedding.positions[row, i] for i in range(soft.tokens)]
        rest = soft.embedding.constant[row, 0]
        result.append(
            (
                rest + min(places) + sum(min(v * low, v * high) for _, v in reads),
                rest + max(places) + sum(max(v * low, v * high) for _, v in reads),
            )
        )
    return result
