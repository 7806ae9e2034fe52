"""How far a sequence model is from its map, at most: bounds on d_p by parts.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb, factorial, floor, inf, isfinite, log10
from typing import Any

from exactformer.errors import InputError
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.softness import Softness

Modulus = Callable[[float], float] | float
OFFSETS = {"centre": 0.5, "corner": 1.0}
"""How far from the sampled point a cell reaches, in cells."""


@dataclass(frozen=True)
class SequenceErrorBound:
    """A bound on d_p and the parts it is made of, each a distance."""

    p: float
    smooth: float
    equal_columns: float
    ramps: float
    leakage: float
    estimated: bool
    """Whether the modulus was estimated from samples; then this is an estimate, not a bound."""

    @property
    def total(self) -> float:
        """The sum: p-th powers of smooth and equal columns, which are met by different inputs."""
        return norm((self.smooth, self.equal_columns), self.p) + self.ramps + self.leakage

    def to_dict(self) -> dict[str, Any]:
        """Return what a certificate holds; parts that are 0 are left out."""
        parts = {
            "smooth": self.smooth,
            "equal columns": self.equal_columns,
            "ramps": self.ramps,
            "leakage": self.leakage,
        }
        return {
            f"d_{self.p:g}": rounded_up(self.total),
            **{name: rounded_up(value) for name, value in parts.items() if value},
            "modulus": "estimated, so d_p is no bound" if self.estimated else "given",
        }


def rounded_up(value: float) -> float:
    """Return the next larger number of four significant digits.

    >>> rounded_up(0.0512301)
    0.05124
    """
    if value == 0:
        return 0.0
    digits = 3 - floor(log10(value))
    result = round(value, digits)
    return result if result >= value else round(result + 10.0**-digits, digits)


def bound_sequence_error(
    table: GridTable,
    modulus: Modulus,
    p: float = 2,
    largest: float | None = None,
    sample: str = "centre",
    softness: Softness | None = None,
    estimated: bool = False,
    equal_norm: float | None = None,
) -> SequenceErrorBound:
    """Bound d_p between a map of known modulus and the model of its table.

    ``modulus`` is ω, or a number L for ω(h) = Lh; ``largest`` is sup ‖f‖_p where it is known, and
    ``equal_norm`` the norm of f over the sampled points of cells that are discarded.
    """
    if not 1 <= p < inf:
        raise InputError(f"p={p} must be at least 1, and finite")
    grid = table.grid
    side = cell_side(grid)
    entries, reach = grid.tokens * grid.dim, OFFSETS[sample] * side
    away = entries ** (1 / p) * reach
    smooth = modulus_at(modulus, away)
    if not callable(modulus):
        smooth = modulus * (entries / (p + 1)) ** (1 / p) * reach
    lost = 1 - kept_mass(grid)
    equal = 0.0
    if lost:
        share = lost ** (1 / p)
        if largest is not None:
            equal = share * largest
        elif equal_norm is not None:
            equal = equal_norm + share * smooth
        else:
            equal = share * largest_norm(table, modulus, p, sample)
        if softness is not None and not softness.rejects:
            equal += share * span(softness, grid.tokens, p)
    ramps, leakage = soft_parts(softness, grid.tokens, p)
    kept = (1 - lost) ** (1 / p) * smooth
    return SequenceErrorBound(float(p), kept, equal, ramps, leakage, estimated)


def soft_parts(softness: Softness | None, tokens: int, p: float) -> tuple[float, float]:
    """Return how far a softened model is from its hard limit: by ramps, by leakage."""
    if softness is None:
        return 0.0, 0.0
    whole = span(softness, tokens, p)
    ramps = softness.ramp_mass ** (1 / p) * whole
    moved = softness.stream_error if softness.selects else None
    leakage = whole if moved is None else min(whole, tokens ** (1 / p) * moved)
    return ramps, leakage


def span(softness: Softness, tokens: int, p: float) -> float:
    """Return how far apart, in ‖·‖_p, two outputs of a softened model can be."""
    return float(tokens ** (1 / p) * norm(softness.spans, p))


def kept_mass(grid: Grid) -> float:
    """Return the part of the cube that has a value: P = Π_{i<n}(1 − i/D) where columns must differ."""
    if grid.positional or grid.repeats:
        return 1.0
    n, D = grid.tokens, grid.points
    return float(comb(D, n) * factorial(n) / D**n)


def largest_norm(table: GridTable, modulus: Modulus, p: float, sample: str) -> float:
    """Return a bound on ‖f(X)‖_p over the cube, from the table and the modulus."""
    grid = table.grid
    norms = (
        norm([float(v) for column in columns for v in column], p)
        for columns in table.values.values()
    )
    cells = OFFSETS[sample]
    if not (grid.positional or grid.repeats):
        # Columns become different along one coordinate where it has cells enough.
        cells += grid.tokens - 1 if grid.cells >= grid.tokens else grid.cells
    way = (grid.tokens * grid.dim) ** (1 / p) * cells * cell_side(grid)
    return max(norms, default=0.0) + modulus_at(modulus, way)


def norm(values: Iterable[float], p: float) -> float:
    """Return ‖v‖_p, by the largest entry: powers of small numbers would be 0.

    >>> norm((3, -4), 2)
    5.0
    """
    sizes = [abs(v) for v in values]
    largest = max(sizes)
    return float(largest * sum((v / largest) ** p for v in sizes) ** (1 / p)) if largest else 0.0


def cell_side(grid: Grid) -> float:
    """Return the side of a cell, in the coordinates of the input."""
    low, high = grid.support
    return float((high - low) / grid.cells)


def modulus_at(modulus: Modulus, h: float) -> float:
    """Return ω(h), checked."""
    value = float(modulus(h)) if callable(modulus) else float(modulus) * h
    if not (isfinite(value) and value >= 0):
        raise InputError(f"the modulus of continuity is {value} at {h:.4g}; it must be 0 or more")
    return value
