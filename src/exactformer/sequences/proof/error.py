"""Bounds on the distance d_p between a sequence model and its map, by parts.

    d_p(f, g)^p = E ‖f(X) − g(X)‖_p^p,    X uniform on the support's cube, ‖·‖_p over all nd entries.

With s the side of a cell, m = nd, and a modulus of continuity ‖f(X) − f(Y)‖_p ≤ ω(‖X − Y‖_p):

* **smooth.** On its cell g is f at the centre, no entry farther than s/2 (a corner: s). So the distance
  is at most ω(m^(1/p) s/2); where ω(h) = Lh it is averaged, L·(m/(p + 1))^(1/p)·s/2.
* **equal columns.** Forms that discard equal columns send a part 1 − Π_{i<n}(1 − i/D) of the inputs to
  0, which costs the norm of f there: that of f at the cells' points plus the smooth part, or sup ‖f‖_p.
* **ramps.** A softened model differs from its hard limit on ramps, by no more than the span of outputs.
* **leakage.** What softmax leaves beside the maximum: nothing in the output once codes are within the
  look-ups' clearance, except in the paper's form, where a column is moved by it; below the threshold,
  the span of outputs again.

sup ‖f‖_p is given; where there is nothing but a table, it is the largest norm in the table plus ω of
the way to the nearest class: half a cell, and up to n − 1 cells more for columns to become different.

Every number is rounded up. The modulus, and the norms of f where they are known, are taken as they are
stated (:class:`Stated`): a bound is proven *for them* and names them; where a file states them, it is
*stated by the file*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, comb, factorial, frexp, inf, isfinite, ldexp
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from exactformer.algebra.rational import to_float
from exactformer.core.certificate import Bound, Kind
from exactformer.core.header import MOST_FLOAT, rational, rational_text
from exactformer.core.upper import Upper, float_above
from exactformer.errors import FileFormatError, InputError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import Grid, GridTable, exact
from exactformer.sequences.proof.softness import Softness

Modulus: TypeAlias = "Callable[[float], float] | float | Fraction"
SOURCE = "modulus source"
"""The entry of the metadata that every file gets when it is read: what it states is *stated*."""
OFFSETS = {"centre": Fraction(1, 2), "corner": Fraction(0)}
"""Where in its cell a map is sampled, from the lower corner to the upper."""
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SequenceErrorBound:
    """A bound on d_p in exact arithmetic and the parts it is made of, each a distance."""

    p: float
    smooth: float
    equal_columns: float
    ramps: float
    leakage: float
    estimated: bool
    """Whether the modulus was estimated from samples; then this is an estimate, not a bound."""
    given: str = ""
    """What is taken for granted of the map, in words and numbers."""
    stated: bool = False
    """Whether a file took it for granted, rather than the one who asks."""

    @property
    def kind(self) -> Kind:
        """How the bound is known."""
        if self.stated:
            return Kind.STATED
        return Kind.ESTIMATED if self.estimated else Kind.PROVEN

    @property
    def total(self) -> float:
        """The sum: p-th powers of smooth and equal columns, which are met by different inputs."""
        return float(self._sum())

    def bound(self, entries: int, rounding: float = 0.0, words: str = "") -> Bound:
        """Return the bound with what rounding each of so many entries adds."""
        rounded = power(Upper(entries), 1 / Fraction(self.p)) * rounding
        parts = {
            "smooth": self.smooth,
            "equal columns": self.equal_columns,
            "ramps": self.ramps,
            "leakage": self.leakage,
            "rounding": float(rounded),
        }
        return Bound(
            float(self._sum() + rounded),
            {name: value for name, value in parts.items() if value},
            f"d_{self.p:g}(f, model){words}" + (f" given {self.given}" if self.given else ""),
            self.kind,
        )

    def _sum(self) -> Upper:
        return norm((self.smooth, self.equal_columns), self.p) + self.ramps + self.leakage


@dataclass(frozen=True)
class Stated:
    """What a bound takes for granted about a map: numbers that nobody proved."""

    modulus: Fraction | tuple[tuple[Fraction, Fraction], ...]
    """L, or (h, ω(h)) for the arguments that the bound needs."""
    p: Fraction
    largest: Fraction | None = None
    equal_norm: Fraction | None = None
    estimated: bool = False
    by_file: bool = False
    """Whether it was read from a file, which may state what it likes."""

    def __str__(self) -> str:
        """Return every number that is taken for granted."""
        if isinstance(self.modulus, Fraction):
            texts = [f"L = {_shown(self.modulus)}"]
        else:
            texts = [f"ω({_shown(h)}) = {_shown(value)}" for h, value in self.modulus]
        if self.largest is not None:
            texts.append(f"sup ‖f‖ = {_shown(self.largest)}")
        elif self.equal_norm is not None:
            texts.append(f"‖f‖ = {_shown(self.equal_norm)} on equal columns")
        return ", ".join(texts)

    def to_metadata(self) -> dict[str, str]:
        """Return the entries of a blueprint's metadata that hold it."""
        texts = {"modulus": _modulus_text(self.modulus), "modulus exponent": rational_text(self.p)}
        norms = {"modulus largest": self.largest, "modulus equal norm": self.equal_norm}
        texts |= {name: rational_text(v) for name, v in norms.items() if v is not None}
        return texts | ({"modulus estimated": "yes"} if self.estimated else {})

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Stated | None:
        """Read the entries of a blueprint's metadata; raise where they are damaged."""
        if "modulus" not in metadata:
            return None

        def number(name: str) -> Fraction | None:
            return None if name not in metadata else _stated(metadata[name], name)

        p = number("modulus exponent")
        if p is None or p < 1 or metadata.get("modulus estimated", "yes") != "yes":
            raise FileFormatError("the entries that state a modulus of continuity are damaged")
        text = metadata["modulus"]
        modulus: Fraction | tuple[tuple[Fraction, Fraction], ...]
        if ":" in text:
            pairs = [pair.partition(":")[::2] for pair in text.split(" ")]
            modulus = tuple((_stated(h, "modulus"), _stated(v, "modulus")) for h, v in pairs)
        else:
            modulus = _stated(text, "modulus")
        norms = (number("modulus largest"), number("modulus equal norm"))
        estimated, by_file = "modulus estimated" in metadata, SOURCE in metadata
        return cls(modulus, p, *norms, estimated=estimated, by_file=by_file)

    def at(self, h: float) -> float:
        """Return ω at the nearest argument above that was stated; ω does not fall."""
        assert not isinstance(self.modulus, Fraction)
        known = [(a, value) for a, value in self.modulus if a >= Fraction(h)]
        if not known:
            raise FileFormatError(f"the modulus of continuity is not stated at {h:.4g} or above")
        return float_above(min(known)[1])


def state(
    table: GridTable,
    modulus: Modulus,
    p: float = 2,
    largest: float | None = None,
    sample: str = "centre",
    estimated: bool = False,
    equal_norm: float | None = None,
) -> Stated:
    """Return what is stated of a map; of a function ω, its values where the bound needs them."""
    seen: dict[Fraction, Fraction] = {}

    def noted(h: float) -> float:
        assert callable(modulus)
        # Farther by 2⁻³² of h at least, so that other processors' roundings of h stay below.
        fraction, exponent = frexp(h)
        beyond = ldexp(ceil(fraction * 2**32) + 1, exponent - 32)
        value = modulus_at(modulus, beyond)
        seen[Fraction(beyond)] = Fraction(float(value))
        return float(value)

    bound_sequence_error(
        table, noted if callable(modulus) else modulus, p, largest, sample, equal_norm=equal_norm
    )
    return Stated(
        tuple(seen.items()) if callable(modulus) else exact(modulus),
        exact(p),
        None if largest is None else exact(largest),
        None if equal_norm is None else exact(equal_norm),
        estimated,
    )


def stated_error(
    blueprint: SequenceBlueprint, table: GridTable, softness: Softness | None = None
) -> SequenceErrorBound | None:
    """Return the bound for what a blueprint states of its map; None where it states nothing."""
    stated = Stated.of(blueprint.metadata)
    if stated is None:
        return None
    error = bound_sequence_error(
        table,
        stated.modulus if isinstance(stated.modulus, Fraction) else stated.at,
        stated.p,
        stated.largest,
        sample_of(blueprint),
        softness,
        stated.estimated,
        stated.equal_norm,
    )
    return replace(error, given=str(stated), stated=stated.by_file)


def sample_of(blueprint: SequenceBlueprint) -> str:
    """Return where in their cells the map of a blueprint was sampled, as it states."""
    sample = blueprint.metadata.get("sample", "centre")
    if sample not in OFFSETS:
        raise FileFormatError(f"sample={sample[:40]!r} is not one of {', '.join(OFFSETS)}")
    return sample


def bound_sequence_error(
    table: GridTable,
    modulus: Modulus,
    p: float | Fraction = 2,
    largest: float | Fraction | None = None,
    sample: str = "centre",
    softness: Softness | None = None,
    estimated: bool = False,
    equal_norm: float | Fraction | None = None,
) -> SequenceErrorBound:
    """Bound d_p between a map of known modulus and the model of its table.

    ``modulus`` is ω, which must not fall, or a number L for ω(h) = Lh; ``largest`` is sup ‖f‖_p where
    it is known, and ``equal_norm`` the norm of f over the sampled points of cells that are discarded.
    """
    if not 1 <= p < inf:
        raise InputError(f"p={p} must be at least 1, and finite")
    for name, value in (("largest", largest), ("equal_norm", equal_norm)):
        if value is not None and not 0 <= value < inf:
            raise InputError(f"{name}={value} must be 0 or more, and finite")
    grid, p = table.grid, Fraction(p)
    entries, way = Fraction(grid.tokens * grid.dim), reach(grid, sample)
    smooth = modulus_at(modulus, _root(entries, p) * float_above(way))
    if not callable(modulus):
        smooth = modulus_at(modulus, _root(entries / (p + 1), p) * float_above(way))
    lost = 1 - kept_mass(grid)
    equal = Upper(0.0)
    if lost:
        share = _root(lost, p)
        if largest is not None:
            equal = share * float_above(Fraction(largest))
        elif equal_norm is not None:
            equal = share * smooth + float_above(Fraction(equal_norm))
        else:
            equal = share * largest_norm(table, modulus, p, sample)
        if softness is not None and not softness.rejects:
            equal = equal + share * span(softness, grid.tokens, p)
    ramps, leakage = soft_parts(softness, grid.tokens, p)
    kept = _root(1 - lost, p) * smooth
    return SequenceErrorBound(to_float(p), float(kept), float(equal), ramps, leakage, estimated)


def soft_parts(softness: Softness | None, tokens: int, p: float | Fraction) -> tuple[float, float]:
    """Return how far a softened model is from its hard limit: by ramps, by leakage."""
    if softness is None:
        return 0.0, 0.0
    whole = span(softness, tokens, p)
    ramps = _root(Fraction(softness.ramp_mass), p) * whole
    moved = softness.stream_error if softness.selects else None
    leakage = whole if moved is None else whole.or_below(_root(Fraction(tokens), p) * moved)
    return float(ramps), float(leakage)


def span(softness: Softness, tokens: int, p: float | Fraction) -> Upper:
    """Return how far apart, in ‖·‖_p, two outputs of a softened model can be."""
    return _root(Fraction(tokens), p) * norm(softness.spans, p)


def kept_mass(grid: Grid) -> Fraction:
    """Return the part of the cube that has a value: P = Π_{i<n}(1 − i/D) where columns must differ."""
    if grid.positional or grid.repeats:
        return Fraction(1)
    n, D = grid.tokens, grid.points
    return Fraction(comb(D, n) * factorial(n), D**n)


def largest_norm(table: GridTable, modulus: Modulus, p: float | Fraction, sample: str) -> Upper:
    """Return a bound on ‖f(X)‖_p over the cube, from the table and the modulus."""
    grid = table.grid
    sizes = [
        [float(Upper.of(v)) for column in columns for v in column]
        for columns in table.values.values()
    ]
    way = reach(grid, sample)
    if not (grid.positional or grid.repeats):
        # Columns become different along one coordinate where it has cells enough.
        more = grid.tokens - 1 if grid.cells >= grid.tokens else grid.cells
        way += more * cell_side(grid)
    away = _root(Fraction(grid.tokens * grid.dim), p) * float_above(way)
    return norm(sizes, p).max() + modulus_at(modulus, away)


def norm(values: ArrayLike, p: float | Fraction) -> Upper:
    """Bound ‖v‖_p along the last axis, by the largest entry: powers of small numbers would be 0.

    >>> 5 <= float(norm((3, -4), 2)) < 5.000001
    True
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    largest = sizes.max(axis=-1, initial=_SMALLEST)
    shares = Upper(sizes) / largest[..., None]
    total = power(shares, Fraction(p)).sum(axis=-1)
    return power(total, 1 / Fraction(p)) * Upper(largest)


def power(base: Upper, exponent: Fraction) -> Upper:
    """Bound base^exponent, for an exponent above 0.

    Room is left for 15 units (2⁻⁵²) that the power may lack, one for the roundings after it, and
    |e log b| for the exponent's own: where e is off by eδ, b^e is off by a factor of b^(eδ), nearly
    1 + δ e log b, and |δ| ≤ 2⁻⁵³.
    """
    if exponent == 1:
        return base
    e = to_float(exponent)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        found = np.power(base.values, e)
        room = 1 + (16 + np.abs(e * np.log(base.values))) * 2.0**-52
        found = np.maximum(found * room, _SMALLEST)
    return Upper(np.where(base.values == 0, 0.0, found))


def reach(grid: Grid, sample: str) -> Fraction:
    """Return how far a cell reaches from the float at which a map is sampled there."""
    low, side, offset = grid.support[0], cell_side(grid), OFFSETS[sample]
    corners = (low + side * q for q in range(grid.cells))
    points = ((corner, Fraction(to_float(corner + side * offset))) for corner in corners)
    return max(max(point - corner, corner + side - point) for corner, point in points)


def cell_side(grid: Grid) -> Fraction:
    """Return the side of a cell, in the coordinates of the input."""
    low, high = grid.support
    return (high - low) / grid.cells


def modulus_at(modulus: Modulus, h: Upper | float) -> Upper:
    """Return ω(h), checked."""
    if callable(modulus):
        value = float(modulus(float(h)))
    else:
        stated = to_float(modulus) if isinstance(modulus, Fraction) else float(modulus)
        usable = isfinite(stated) and stated >= 0
        value = float(Upper(float_above(exact(modulus))) * h) if usable else stated
    if not (isfinite(value) and value >= 0):
        raise InputError(
            f"the modulus of continuity is {value} at {float(h):.4g}; it must be 0 or more"
        )
    return Upper(value)


def _root(base: Fraction, p: float | Fraction) -> Upper:
    return power(Upper(float_above(base)), 1 / Fraction(p))


def _modulus_text(modulus: Fraction | tuple[tuple[Fraction, Fraction], ...]) -> str:
    if isinstance(modulus, Fraction):
        return rational_text(modulus)
    return " ".join(f"{rational_text(h)}:{rational_text(value)}" for h, value in modulus)


def _shown(number: Fraction) -> str:
    """Return a number as it is, where that is short, or rounded to six digits."""
    text = str(number)
    return text if len(text) <= 12 else f"{to_float(number):.6g}"


def _stated(text: str, name: str) -> Fraction:
    number = rational(text, name)
    if number < 0:
        raise FileFormatError(f"{name} is negative: {text[:40]!r}")
    if number >= MOST_FLOAT:
        raise FileFormatError(f"{name} is beyond float64: {text[:40]!r}")
    return number
