"""What a softened sequence blueprint still does, proven against its hard limit.

**Layers.** Attention has the heads of the limit, under softmax with one inverse temperature λ. Every
group of ReLUs is read as the continuous function it is and compared with the limit's activation, in
rationals: they may differ on *ramps* only. The quantiser's ramps take a part of every cell, and no
coordinate that has been quantised lies on one; the look-ups' ramps keep a *clearance* from all integers
(counted in cells).

**Leakage.** How far codes may be off is :mod:`exactformer.sequences.proof.leakage`.

**Outputs.** Neighbouring look-ups never add up to more than 1, so a token's output lies between 0 and
the values of the table, also on ramps and below the threshold; the paper's form is clipped to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, log2, prod
from typing import Any

from exactformer.core.layers import (
    RELU,
    Attention,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
)
from exactformer.core.matrix import Matrix
from exactformer.core.upper import float_above
from exactformer.core.words import at_most
from exactformer.errors import CertificationError, IdentityError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.cells import quantised, visits
from exactformer.sequences.proof.leakage import PRECISION, Leakage
from exactformer.sequences.proof.lookups import cell_unit, check_weights, read_lookup
from exactformer.sequences.proof.outside import reject_band, selective_shifts, starts_at_zero
from exactformer.sequences.shapes import check_sequence_shapes

Interval = tuple[Fraction, Fraction]
Relu = tuple[Fraction, Fraction, Fraction]
"""(σ, o, c): c·relu(σt + o)."""
_SMALL = Fraction(1, 2**200)
ALLOWED = 0.25
"""How far codes may be off, in cells, for λ to count as past the threshold."""


@dataclass(frozen=True)
class Softness:
    """What is known about a softened blueprint beside its hard limit."""

    sharpness: float
    """λ, the inverse temperature."""
    threshold: float
    """The λ from which every code is proven to be off by a quarter of a cell at most."""
    ramp_mass: float
    """The part of the inputs that has a coordinate on a ramp; only boundedness is proven there."""
    code_error: float | None
    """How far codes may be off, in cells; None where nothing is proven (λ too small)."""
    clearance: float
    """How far codes may be off for values to be unchanged."""
    stream_error: float | None
    """What is left of leakage and of key-sized roundings in the paper's form; 0 in the others."""
    rejects: bool
    """Whether columns that the hard limit sends to 0 are proven to go there."""
    spans: tuple[float, ...]
    """For every coordinate, how far apart two outputs can be, whatever the input."""

    @property
    def selects(self) -> bool:
        """Whether all codes are proven to be near enough to those of the hard limit."""
        return self.code_error is not None and self.code_error <= self.clearance

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "selects": self.selects}

    def lines(self) -> Mapping[str, str]:
        """Describe in a few lines, by name."""
        if self.code_error == 0:
            softmax = f"λ = {self.sharpness:.6g}: scores do not differ, nothing leaks"
            return {"softmax": softmax, "ramps": self._ramps()}
        past = "past" if self.selects else "below"
        codes = (
            f"codes off by at most {at_most(self.code_error, 2)} of a cell"
            if self.code_error is not None
            else "no bound on the codes"
        )
        return {
            "softmax": f"λ = {self.sharpness:.6g}, {past} the threshold {self.threshold:.4g}: {codes}",
            "ramps": self._ramps(),
        }

    def _ramps(self) -> str:
        return (
            f"at most {at_most(self.ramp_mass)} of the inputs lie on ramps; all others are proven"
        )


def check_softened(soft: SequenceBlueprint, limit: SequenceBlueprint, table: GridTable) -> Softness:
    """Compare a softened blueprint with its hard limit; raise where it differs beyond its ramps.

    The limit has to be certified by itself. Where it comes from does not matter.
    """
    check_sequence_shapes(soft)
    check_weights(soft)
    same = ("tokens", "dim", "delta", "positional", "support", "dimensions", "embedding")
    for name in (*same, "readout", "code", "largest_key"):
        if getattr(soft, name) != getattr(limit, name):
            raise IdentityError(f"the softened blueprint and its limit differ in {name}")
    unit = cell_unit(limit)
    in_place = read_lookup(limit.stages[-1].parts[0], unit).in_turn
    names = [stage.name for stage in soft.stages]
    if names != [stage.name for stage in limit.stages] + ["clip"] * in_place:
        raise IdentityError(f"the softened blueprint has the stages {', '.join(names)}")
    if not (in_place or starts_at_zero(limit)):
        raise CertificationError("rows of the output are not 0 before the value layers")
    groups = relu_groups(soft, limit)
    masses = _ramp_masses({p: g for (s, p), g in groups.items() if s == 0}, limit)
    clearance = Fraction(1, 2)
    for (stage, _), group in groups.items():
        if stage > 0:
            clearance = min([clearance, *(_clearance(ramp, unit) for ramp in group.ramps)])
        if stage == len(limit.stages) - 1:
            _check_partition(group.relus, unit)
    if clearance <= 0:
        raise CertificationError("a look-up of the softened blueprint does not fire at integers")
    sharpness = 1 / temperature(soft, limit)
    # Ramps of one coordinate may overlap, and then add up to more than all of it.
    kept = prod((max(Fraction(0), 1 - mass) for mass in masses.values()), start=Fraction(1))
    for name, number in (("a cell", unit), ("the sharpness", sharpness)):
        if not _SMALL <= number <= 1 / _SMALL:
            raise CertificationError(
                f"{name} is not between 2^-200 and 2^200: nothing is known of scores in float64, which "
                "may overflow or underflow"
            )
    leakage, cell = Leakage.of(limit), float(unit)
    error = leakage.code_error(sharpness * unit**2)
    # A value is added to a column as large as its key: four roundings of that size.
    rounded = Fraction(limit.largest_key * 4, 2**PRECISION)
    left_over = float_above(unit * (Fraction(error) + rounded)) if error < inf else None
    if in_place:
        _check_margin(limit, table, unit)
    rejected = reject_margin(limit) if in_place or limit.stages[2:-1] else clearance
    return Softness(
        sharpness=float(sharpness),
        threshold=leakage.sharpness_for(ALLOWED) / cell**2,
        ramp_mass=float_above(1 - kept),
        code_error=error if error < inf else None,
        clearance=float(clearance),
        stream_error=left_over if in_place or error == inf else 0.0,
        rejects=error <= rejected,
        spans=tuple(_spans(soft, table) if in_place else output_spans(table)),
    )


def reject_margin(limit: SequenceBlueprint) -> float:
    """Return how far codes may be off, in cells, for all columns that are rejected to become 0.

    No row of a column is negative or larger than uᵀz, and both ends of the band lie halfway between
    integers. So a column with the code c outside of it, off by e, is lowered by s(½ − e) cells or more,
    and a row holds c + e at most; the first code above the band asks for most. Columns with keys lie
    inside, and are left alone as long as e < ½.
    """
    unit, reject = cell_unit(limit), list(limit.stages[2:-1])
    if not reject:
        return 0.0
    band = reject_band(reject, limit, unit)
    if band is None or selective_shifts(limit.stages[1], limit, unit) is None:
        raise CertificationError("nothing is known about what softmax leaves of the reject stage")
    low, high, strength = band[0] / unit, band[1] / unit, band[2]
    keys, after = read_lookup(limit.stages[-1].parts[0], unit).columns, quantised(limit, unit)
    rows = [*after.base, *(row for token in after.cells for way in token for row in way)]
    margin = (strength / 2 - high - Fraction(1, 2)) / (strength + 1)
    if (
        min(v for row in rows for v in row) < 0
        or min(v for _, _, v in limit.code) < 0
        or {low.denominator, high.denominator} != {2}
        or not 0 < low < min(keys)
        or max(keys) > high
        or margin <= 0
    ):
        raise CertificationError(
            "the reject stage is not shown to tell keys from other codes where these are off"
        )
    return float(margin)


def output_spans(table: GridTable) -> Iterator[float]:
    """Yield, for every coordinate, the largest less the smallest value of a table, 0 included."""
    for low, high in _ends(table):
        yield float_above(high - low)


def _ends(table: GridTable) -> Iterator[Interval]:
    for r in range(table.grid.dim):
        found = [c[r] for columns in table.values.values() for c in columns]
        yield min(Fraction(0), *found), max(Fraction(0), *found)


def _spans(soft: SequenceBlueprint, table: GridTable) -> Iterator[float]:
    """Check that the clipping layers keep all values of the table, and yield what they leave.

    Layer r acts on the one row that output r is read from.
    """
    clip, ends = soft.stages[-1], list(_ends(table))
    if len(clip.parts) != len(ends) or len(clip) != len(ends):
        raise IdentityError("clip: there is not one layer for every coordinate")
    for r, (part, (low, high)) in enumerate(zip(clip.parts, ends, strict=True)):
        units, relus = _clip_units(part), []
        for m in range(units.w1.rows):
            reads, writes = units.w1.by_row.get(m, []), units.w2.by_column.get(m, [])
            rows = [[(j, Fraction(1)) for j, _ in places] for places in (reads, writes)]
            if rows != [soft.readout.by_row.get(r)] * 2:
                raise IdentityError(
                    f"clip: layer {r + 1} does not act on the row of output {r + 1}"
                )
            relus.append((reads[0][1], units.b1[m, 0], writes[0][1]))
        bends = sorted({-o / s for s, o, _ in relus})
        if len(bends) != 2:
            raise IdentityError(f"clip: layer {r + 1} does not bend twice")
        first, last = bends
        clamp = PiecewiseLinear.of((first, last), ((-1, first), (0, 0), (-1, last)))
        if first > low or last < high or _difference(relus, clamp, "clip"):
            raise IdentityError(f"clip: layer {r + 1} does not leave the values of the table alone")
        yield float_above(last - first)


def _clip_units(units: Layer) -> FeedForward:
    if isinstance(units, Attention) or units.activation != RELU or units.b2.nonzeros:
        raise IdentityError("clip: a layer is not made of ReLUs")
    return units


def _check_margin(limit: SequenceBlueprint, table: GridTable, unit: Fraction) -> None:
    """Raise unless values of the paper's form stay a whole cell below all keys."""
    smallest = unit * min(read_lookup(limit.stages[-1].parts[0], unit).columns)
    reach = sum((abs(v) * unit for _, _, v in limit.code), Fraction(0)) * table.largest
    if reach > smallest - unit:
        raise CertificationError("a softened value layer may take a value for a key")


def literal_rounding(soft: SequenceBlueprint) -> float:
    """Return how far off the ReLUs of the value layers may be in float64, where keys are exact.

    A ReLU that has grown to the size of a key is rounded to 53 bits before the next one cancels it.
    """
    units = soft.stage("values").parts[0]
    if isinstance(units, Attention):
        raise IdentityError("the value stage has no attention")
    largest = max((abs(float(v)) for _, _, v in units.w2), default=0.0)
    unit = float(cell_unit(soft))
    return units.w1.rows * largest * soft.largest_key * unit * 2.0**-PRECISION


def float_bits(key_bits: int, tokens: int) -> int:
    """Return the significant bits that codes need, three of them for the ramps."""
    return key_bits + 3 + ceil(log2(tokens))


def temperature(soft: SequenceBlueprint, limit: SequenceBlueprint) -> Fraction:
    """Return the one temperature of all attention, whose heads must be those of the limit."""
    found: set[Fraction] = set()
    for _, part, other in _pairs(soft, limit):
        if not isinstance(part, Attention):
            continue
        if not isinstance(other, Attention) or part.heads != other.heads:
            raise IdentityError("an attention layer does not have the heads of the limit")
        if part.selection.rule is not Rule.SOFTMAX:
            raise IdentityError(f"{part.selection.rule} is not softmax")
        found.add(part.selection.temperature)
    if len(found) != 1:
        raise CertificationError("softmax needs one temperature for all attention")
    return found.pop()


def _pairs(
    soft: SequenceBlueprint, limit: SequenceBlueprint
) -> Iterator[tuple[tuple[int, int], Layer, Layer]]:
    """Yield the parts of a softened blueprint beside those of its limit, with their places."""
    for s, (own, hard) in enumerate(zip(soft.stages, limit.stages, strict=False)):
        if len(own.parts) != len(hard.parts):
            raise IdentityError(f"{own.name}: layers are not those of the limit")
        for p, (part, other) in enumerate(zip(own.parts, hard.parts, strict=True)):
            yield (s, p), part, other


@dataclass(frozen=True)
class ReluGroup:
    """The ReLUs that stand for every unit of one part of the limit."""

    relus: list[Relu]
    hard: PiecewiseLinear
    ramps: list[Interval]
    """Where their sum is not the limit's activation, closed intervals."""

    @classmethod
    def of(cls, relus: list[Relu], hard: FeedForward, stage: str) -> ReluGroup:
        """Compare the ReLUs with the activation of the limit's units."""
        # A unit that writes nothing has no ramps; its ReLUs write nothing either.
        ramps = _difference(relus, hard.activation, stage) if hard.w2.nonzeros else []
        return cls(relus, hard.activation, ramps)

    def is_hard(self, t: Fraction) -> bool:
        """Whether the sum is the limit's activation at a point."""
        return _sum(self.relus, t) == self.hard(t)


def relu_groups(
    soft: SequenceBlueprint, limit: SequenceBlueprint
) -> dict[tuple[int, int], ReluGroup]:
    """Read the ReLUs of every feed-forward part, by stage and part; raise where they are others."""
    groups = {}
    for place, part, other in _pairs(soft, limit):
        if not isinstance(part, Attention):
            stage = soft.stages[place[0]].name
            units, hard, size = _softened(part, other, stage)
            relus = _relus(units, hard, size, stage)
            for m in range(hard.w1.rows):
                _check_group(units, hard, m, size, relus, stage)
            groups[place] = ReluGroup.of(relus, hard, stage)
    return groups


def checked_group(part: Layer, other: Layer) -> ReluGroup:
    """Read the ReLUs of one part of a blueprint that has been checked: those of its first unit."""
    units, hard, size = _softened(part, other, "checked")
    return ReluGroup.of(_relus(units, hard, size, "checked"), hard, "checked")


def _softened(units: Layer, hard: Layer, stage: str) -> tuple[FeedForward, FeedForward, int]:
    """Return the units of a part and of its limit, and how many ReLUs stand for each of these."""
    if (
        isinstance(units, Attention)
        or isinstance(hard, Attention)
        or units.activation != RELU
        or units.b2 != hard.b2
    ):
        raise IdentityError(f"{stage}: a layer is not the ReLU form of the limit's")
    size = units.w1.rows // hard.w1.rows
    if size * hard.w1.rows != units.w1.rows:
        raise IdentityError(f"{stage}: there are not {size} ReLUs for every unit")
    if (units.successive or 0) != size * (hard.successive or 0):
        raise IdentityError(f"{stage}: ReLUs do not act together where the limit's units do")
    return units, hard, size


def _relus(units: FeedForward, hard: FeedForward, size: int, stage: str) -> list[Relu]:
    """Read c·relu(σt + o) for the ReLUs of the first unit, where t is what the limit's unit reads."""
    reads = hard.w1.by_row.get(0, [])
    # A value of 0 leaves no trace of the weights.
    writes = next((s for s in range(hard.w1.rows) if hard.w2.by_column.get(s)), None)
    if not reads:
        raise IdentityError(f"{stage}: the first unit of the limit reads nothing")
    result = []
    for k in range(size):
        sign = units.w1[k, reads[0][0]] / reads[0][1]
        offset = units.b1[k, 0] - sign * hard.b1[0, 0]
        weight = Fraction(0)
        if writes is not None:
            place, scale = hard.w2.by_column[writes][0]
            weight = units.w2[place, writes * size + k] / scale
        result.append((sign, offset, weight))
    return result


def _check_group(
    units: FeedForward,
    hard: FeedForward,
    m: int,
    size: int,
    group: list[Relu],
    stage: str,
) -> None:
    reads, writes = hard.w1.by_row.get(m, ()), hard.w2.by_column.get(m, ())
    for k, (sign, offset, weight) in enumerate(group):
        row = m * size + k
        if (
            units.w1.by_row.get(row, []) != [(j, sign * v) for j, v in reads if sign]
            or units.b1[row, 0] != sign * hard.b1[m, 0] + offset
            or units.w2.by_column.get(row, []) != [(i, weight * v) for i, v in writes if weight]
        ):
            raise IdentityError(
                f"{stage}: ReLU {row + 1} does not belong to the limit's unit {m + 1}"
            )


def _difference(group: list[Relu], function: PiecewiseLinear, stage: str) -> list[Interval]:
    """Return the intervals on which a sum of ReLUs is not the function, which must be bounded."""
    ends = sorted({*function.breaks, *(-o / s for s, o, _ in group if s)}) or [Fraction(0)]
    result: list[Interval] = []
    outer = [(ends[0] - 1, ends[0]), (ends[-1], ends[-1] + 1)]
    for low, high in (*pairwise(ends), *outer):
        # Both are affine on [low, high), so that two points of it are enough.
        if all(_sum(group, t) == function(t) for t in (low, (low + high) / 2)):
            continue
        if (low, high) in outer:
            raise IdentityError(f"{stage}: ReLUs do not end as the limit's function does")
        result.append((low, high))
    return result


def _sum(group: list[Relu], t: Fraction) -> Fraction:
    return sum((c * max(Fraction(0), s * t + o) for s, o, c in group), Fraction(0))


def _check_partition(group: list[Relu], unit: Fraction) -> None:
    """Raise unless look-ups of neighbouring integers share a weight of at most 1."""
    ends = [-o / s for s, o, _ in group if s]
    # Between ends the sum is linear; beyond a cell from the key nothing is left of it.
    if any(abs(t) > unit for t in ends) or any(
        _sum(group, t) < 0 or sum(_sum(group, t + k * unit) for k in (-1, 0, 1)) > 1 for t in ends
    ):
        raise CertificationError("value layers of neighbouring keys overlap")


def _clearance(interval: Interval, unit: Fraction) -> Fraction:
    """Return the distance of an interval from the nearest integer, in cells; −1 if it holds one."""
    low, high = interval[0] / unit, interval[1] / unit
    below = low.__floor__()
    if below + 1 < high:
        return Fraction(-1)
    return min(low - below, below + 1 - high)


def _ramp_masses(
    groups: Mapping[int, ReluGroup], limit: SequenceBlueprint
) -> dict[tuple[int, int], Fraction]:
    """Return the part of the support that ramps take of every coordinate of every token.

    Off the ramps every unit gives what the limit's does, so that the next unit reads the same.
    """
    low, high = limit.support
    masses: dict[tuple[int, int], Fraction] = {}
    for visit in visits(limit):
        group, (a, b) = groups[visit.part], visit.line
        if not a:
            if not group.is_hard(b):
                raise CertificationError("a quantised coordinate lies on a ramp of the quantiser")
            continue
        for first, last in group.ramps:
            length = min((last - b) / a, visit.high) - max((first - b) / a, visit.low)
            place = (visit.token, visit.coordinate)
            mass = max(Fraction(0), length) / (high - low)
            masses[place] = masses.get(place, Fraction(0)) + mass
    return masses


def narrowest_ramp(soft: SequenceBlueprint, limit: SequenceBlueprint) -> Fraction | None:
    """Return the width of a checked quantiser's narrowest ramp, in cells; None if there is none."""
    pairs = zip(soft.stages[0].parts, limit.stages[0].parts, strict=True)
    widths = [b - a for own, other in pairs for a, b in checked_group(own, other).ramps]
    return min(widths) / cell_unit(limit) if widths else None


def without_relus(soft: SequenceBlueprint, limit: SequenceBlueprint) -> SequenceBlueprint:
    """Return a checked softened blueprint with every group of ReLUs as the one function that it is.

    The function is the same; large ReLUs no longer cancel.
    """

    def part(stage: int, index: int, own: Layer) -> Layer:
        if isinstance(own, Attention):
            return own
        if stage == len(limit.stages):
            return _clamp_of(own)
        other = limit.stages[stage].parts[index]
        _, hard, _ = _softened(own, other, "checked")
        return replace(hard, activation=PiecewiseLinear.of_relus(checked_group(own, other).relus))

    stages = [
        Stage(own.name, tuple(part(s, p, x) for p, x in enumerate(own.parts)))
        for s, own in enumerate(soft.stages)
    ]
    return replace(soft, stages=tuple(stages))


def _clamp_of(part: Layer) -> FeedForward:
    """Return a clipping layer as one unit."""
    units = _clip_units(part)
    (row,) = {row for _, row in units.w1.entries}
    w = units.w1.columns
    relus = [(units.w1[m, row], units.b1[m, 0], units.w2[row, m]) for m in range(units.w1.rows)]
    return FeedForward(
        Matrix.of(1, w, {(0, row): 1}),
        Matrix.of(1, 1, {}),
        Matrix.of(w, 1, {(row, 0): 1}),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of_relus(relus),
    )
