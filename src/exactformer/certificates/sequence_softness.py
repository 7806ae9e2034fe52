"""What a softened sequence blueprint still does, proven against its hard limit.

**Layers.** Attention has the heads of the limit, under softmax with one inverse temperature λ. Every
group of ReLUs is read as the continuous function it is and compared with the limit's activation, in
rationals: they may differ on *ramps* only. The quantiser's ramps take a part of every cell; no integer
(counted in cells) lies on any ramp, and the look-ups' ramps keep a *clearance* from all of them.

**Leakage.** How far codes may be off is :mod:`exactformer.certificates.sequence_leakage`.

**Outputs.** Neighbouring look-ups never add up to more than 1, so a token's output lies between 0 and
the values of the table, also on ramps and below the threshold; the paper's form is clipped to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, log2, prod
from typing import Any

from exactformer.blueprint.layers import (
    Activation,
    Attention,
    FeedForward,
    PiecewiseFeedForward,
    PiecewiseLinear,
    Rule,
)
from exactformer.blueprint.sequence import Part, SequenceBlueprint, Stage, Successive
from exactformer.blueprint.sequence_table import GridTable
from exactformer.certificates.sequence_leakage import PRECISION, Leakage
from exactformer.errors import CertificationError, IdentityError

Interval = tuple[Fraction, Fraction]
Relu = tuple[Fraction, Fraction, Fraction]
"""(σ, o, c): c·relu(σt + o)."""
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
            f"codes off by at most {self.code_error:.2g} of a cell"
            if self.code_error is not None
            else "no bound on the codes"
        )
        return {
            "softmax": f"λ = {self.sharpness:.6g}, {past} the threshold {self.threshold:.4g}: {codes}",
            "ramps": self._ramps(),
        }

    def _ramps(self) -> str:
        return f"{self.ramp_mass:.3g} of the inputs lie on ramps; all others are proven"


def check_softened(soft: SequenceBlueprint, limit: SequenceBlueprint, table: GridTable) -> Softness:
    """Compare a softened blueprint with its hard limit; raise where it differs beyond its ramps."""
    same = ("tokens", "dim", "delta", "form", "positional", "support", "dimensions", "embedding")
    for name in (*same, "readout", "code", "largest_key"):
        if getattr(soft, name) != getattr(limit, name):
            raise IdentityError(f"the softened blueprint and its limit differ in {name}")
    names = [stage.name for stage in soft.stages]
    extra = ["clip"] if limit.form == "paper" else []
    if names != [stage.name for stage in limit.stages] + extra:
        raise IdentityError(f"the softened blueprint has the stages {', '.join(names)}")
    unit = 1 / min(abs(v) for _, _, v in limit.code)
    temperatures: set[Fraction] = set()
    clearance = Fraction(1, 2)
    masses: dict[tuple[int, int], Fraction] = {}
    for own, hard in zip(soft.stages, limit.stages, strict=False):
        for part, other in zip(own.parts, hard.parts, strict=True):
            if isinstance(part, Attention):
                temperatures.add(_same_heads(part, other))
                continue
            group, groups = _ramps_of(part, other, own.name)
            distance = min((_clearance(i, unit) for i in groups), default=Fraction(1, 2))
            if own.name == "values":
                _check_partition(group, unit)
            if own.name == "quantise":
                if distance < 0:
                    raise CertificationError("an edge of the cells lies on a ramp of the quantiser")
                for place, mass in _masses(other, groups, limit):
                    masses[place] = masses.get(place, Fraction(0)) + mass
            elif groups:
                clearance = min(clearance, distance)
    if len(temperatures) != 1 or clearance <= 0:
        raise CertificationError(
            "softmax needs one temperature, and look-ups need to fire at integers"
        )
    sharpness = 1 / temperatures.pop()
    kept = prod((float(1 - mass) for mass in masses.values()), start=1.0)
    leakage, cell = Leakage.of(limit), float(unit)
    error = leakage.code_error(float(sharpness) * cell**2)
    in_place = limit.form == "paper"
    # A value is added to a column as large as its key: four roundings of that size.
    left_over = cell * (error + limit.largest_key * 4 * 2.0**-PRECISION)
    if in_place:
        _check_margin(limit, table, unit)
    return Softness(
        sharpness=float(sharpness),
        threshold=leakage.sharpness_for(ALLOWED) / cell**2,
        ramp_mass=1 - kept,
        code_error=error if error < inf else None,
        clearance=float(clearance),
        stream_error=None if error == inf else left_over if in_place else 0.0,
        # The reject layer is as strong as the largest key takes where codes are integers.
        rejects=error <= (reject_margin(limit) if in_place else clearance),
        spans=tuple(_spans(soft.stage("clip"), table) if in_place else output_spans(table)),
    )


def reject_margin(limit: SequenceBlueprint) -> float:
    """Return how far codes of the paper's form may be off for all rejected columns to become 0."""
    return float(1 / (2 * (limit.largest_key * limit.delta + 1) + limit.delta))


def output_spans(table: GridTable) -> Iterator[float]:
    """Yield, for every coordinate, the largest less the smallest value of a table, 0 included."""
    for low, high in _ends(table):
        yield float(high - low)


def _ends(table: GridTable) -> Iterator[Interval]:
    for r in range(table.grid.dim):
        found = [c[r] for columns in table.values.values() for c in columns]
        yield min(Fraction(0), *found), max(Fraction(0), *found)


def _spans(clip: Stage, table: GridTable) -> Iterator[float]:
    """Check that the clipping layers keep all values of the table, and yield what they leave."""
    for r, (part, (low, high)) in enumerate(zip(clip.parts, _ends(table), strict=True)):
        units = part.units if isinstance(part, Successive) else part
        if not isinstance(units, FeedForward) or units.b2.nonzeros:
            raise IdentityError("clip: a layer is not made of ReLUs")
        relus: list[Relu] = []
        for m in range(units.w1.rows):
            reads, writes = units.w1.by_row.get(m, []), units.w2.by_column.get(m, [])
            if [j for j, _ in reads] != [r] or [i for i, _ in writes] != [r]:
                raise IdentityError(f"clip: layer {r + 1} does not read and write row {r + 1}")
            relus.append((reads[0][1], units.b1[m, 0], writes[0][1]))
        ends = sorted(-o / s for s, o, _ in relus)
        first, last = ends[0], ends[-1]
        clamp = PiecewiseLinear.of((first, last), ((-1, first), (0, 0), (-1, last)))
        if first > low or last < high or _difference(relus, clamp, "clip"):
            raise IdentityError(f"clip: layer {r + 1} does not leave the values of the table alone")
        yield float(last - first)


def _check_margin(limit: SequenceBlueprint, table: GridTable, unit: Fraction) -> None:
    """Raise unless values of the paper's form stay a whole cell below all keys."""
    part = limit.stage("values").parts[0]
    units = part.units if isinstance(part, Successive) else part
    if isinstance(units, Attention):
        raise IdentityError("the value stage has no attention")
    smallest = min(-units.b1[m, 0] for m in range(units.w1.rows))
    reach = sum((abs(v) * unit for _, _, v in limit.code), Fraction(0)) * table.largest
    if reach > smallest - unit:
        raise CertificationError("a softened value layer may take a value for a key")


def literal_rounding(soft: SequenceBlueprint) -> float:
    """Return how far off the ReLUs of the value layers may be in float64, where keys are exact.

    A ReLU that has grown to the size of a key is rounded to 53 bits before the next one cancels it.
    """
    part = soft.stage("values").parts[0]
    units = part.units if isinstance(part, Successive) else part
    if isinstance(units, Attention):
        raise IdentityError("the value stage has no attention")
    unit = float(1 / min(abs(v) for _, _, v in soft.code))
    largest = max((abs(float(v)) for _, _, v in units.w2), default=0.0)
    return units.w1.rows * largest * soft.largest_key * unit * 2.0**-PRECISION


def float_bits(key_bits: int, tokens: int) -> int:
    """Return the significant bits that codes need, three of them for the ramps."""
    return key_bits + 3 + ceil(log2(tokens))


def _same_heads(part: Attention, other: Part) -> Fraction:
    if not isinstance(other, Attention) or part.heads != other.heads:
        raise IdentityError("an attention layer does not have the heads of the limit")
    if part.selection.rule is not Rule.SOFTMAX:
        raise IdentityError(f"{part.selection.rule} is not softmax")
    return part.selection.temperature


def _ramps_of(part: Part, other: Part, stage: str) -> tuple[list[Relu], list[Interval]]:
    """Return a softened layer's function, and where it differs from the limit's."""
    hidden = part.hidden if isinstance(part, Successive) else None
    units = part.units if isinstance(part, Successive) else part
    hard = other.units if isinstance(other, Successive) else other
    if not (isinstance(units, FeedForward) and isinstance(hard, PiecewiseFeedForward)):
        raise IdentityError(f"{stage}: a layer is not the ReLU form of the limit's")
    if units.activation is not Activation.RELU or units.b2 != hard.b2:
        raise IdentityError(f"{stage}: a layer is not the ReLU form of the limit's")
    if (hidden is None) != (not isinstance(other, Successive)) or units.w1.rows % hard.w1.rows:
        raise IdentityError(f"{stage}: layers are not those of the limit")
    size = hidden or units.w1.rows // hard.w1.rows
    if size * hard.w1.rows != units.w1.rows:
        raise IdentityError(f"{stage}: there are not {size} ReLUs for every unit")
    group = _group(units, hard, 0, size, stage)
    for m in range(1, hard.w1.rows):
        _check_group(units, hard, m, size, group, stage)
    return group, _difference(group, hard.activation, stage)


def _group(
    units: FeedForward, hard: PiecewiseFeedForward, m: int, size: int, stage: str
) -> list[Relu]:
    """Read c·relu(σt + o) for the ReLUs of unit m, where t is what the limit's unit reads."""
    reads = hard.w1.by_row.get(m, [])
    writes = next(
        (s for s in range(m, hard.w1.rows) if hard.w2.by_column.get(s)), None
    )  # a value of 0 leaves no trace of the weights
    if not reads:
        raise IdentityError(f"{stage}: unit {m + 1} of the limit reads nothing")
    result = []
    for k in range(size):
        row = m * size + k
        entries = dict(units.w1.by_row.get(row, ()))
        sign = entries.get(reads[0][0], Fraction(0)) / reads[0][1]
        offset = units.b1[row, 0] - sign * hard.b1[m, 0]
        weight = Fraction(0)
        if writes is not None:
            place, scale = hard.w2.by_column[writes][0]
            weight = units.w2[place, writes * size + k] / scale
        result.append((sign, offset, weight))
    _check_group(units, hard, m, size, result, stage)
    return result


def _check_group(
    units: FeedForward,
    hard: PiecewiseFeedForward,
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
    if not any(c for _, _, c in group):
        return []  # writes nothing anywhere
    ends = sorted({*function.breaks, *(-o / s for s, o, _ in group if s)})
    result: list[Interval] = []
    outer = [(ends[0] - 2, ends[0]), (ends[-1], ends[-1] + 2)]
    for low, high in (*pairwise(ends), *outer):
        points = [low + (high - low) * Fraction(k, 3) for k in (1, 2)]
        if all(_sum(group, t) == function(t) for t in points):
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
    points = {t + k * unit for t in ends for k in (-1, 0, 1)}
    if any(not -unit < t < unit for t in ends) or any(
        _sum(group, t) < 0 or sum(_sum(group, t + k * unit) for k in (-1, 0, 1)) > 1 for t in points
    ):
        raise CertificationError("value layers of neighbouring keys overlap")


def _clearance(interval: Interval, unit: Fraction) -> Fraction:
    """Return the distance of an interval from the nearest integer, in cells; −1 if it holds one."""
    low, high = interval[0] / unit, interval[1] / unit
    below = low.__floor__()
    if below + 1 < high:
        return Fraction(-1)
    return min(low - below, below + 1 - high)


def _masses(
    hard: Part, ramps: list[Interval], limit: SequenceBlueprint
) -> Iterator[tuple[tuple[int, int], Fraction]]:
    """Yield the part of the support that ramps take of every coordinate of every token."""
    units = hard.units if isinstance(hard, Successive) else hard
    if isinstance(units, Attention):
        raise IdentityError("the quantiser has no attention")
    embedding = limit.embedding
    low, high = limit.support
    for r in range(limit.dim):
        (home, scale), *_ = embedding.features.by_column[r]
        reads = [(m, units.w1[m, home]) for m in range(units.w1.rows) if units.w1[m, home]]
        for i in range(limit.tokens if reads else 0):
            start = embedding.constant[home, 0] + embedding.positions[home, i]
            ends = start + scale * low, start + scale * high
            total = Fraction(0)
            for m, weight in reads:
                for a, b in ramps:
                    first, last = ((t - units.b1[m, 0]) / weight for t in (a, b))
                    total += max(Fraction(0), min(last, ends[1]) - max(first, ends[0]))
            yield (i, r), total / (scale * (high - low))
