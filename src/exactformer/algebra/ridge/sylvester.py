"""Sylvester's algorithm: the fewest rational directions of polynomials in two variables.

A form Σ_i C(s, i) a_i x^(s−i) y^i is a sum of s-th powers of r different linear forms α x + β y exactly
if r > s or some form g of degree r, with g(α, β) = 0 for all of them, annihilates it:

    Σ_j g_j a_(t+j) = 0,        t = 0, …, s − r.

The same g must do so for every degree and every component, so its coefficients solve one linear system.
What is needed is a solution whose roots are rational and different. A space of solutions of dimension e
has one with e − 1 roots of our choice; for r = q that leaves one root, which is rational as well. Roots
are chosen evenly spread, which keeps coefficients small: q + 1 such directions serve every polynomial.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import atan2, comb, gcd, pi

from flint import fmpq, fmpq_mpoly, fmpq_poly

from exactformer.algebra.ridge.form import Direction
from exactformer.algebra.ridge.vectors import kernel, pivots, primitive

_TRIES = 12
"""Choices of free roots for one number of directions."""

_CLOSE = 0.25
"""Two directions may be as close as this part of an even spacing."""

_BEYOND = 3
"""Numbers of directions tried from the least that has any solution."""

_MAX_DEGREE, _MAX_FORCED, _MAX_EVEN = 100, 8, 40
"""Degrees up to which structure, a forced root, and q + 1 even directions are tried."""


def binary_directions(polynomials: Sequence[fmpq_mpoly]) -> list[Direction] | None:
    """Return directions along which all homogeneous parts are sums of powers, or ``None``."""
    sequences = list(_sequences(polynomials))
    q = max((len(a) - 1 for a in sequences), default=0)
    if not 0 < q <= _MAX_DEGREE:
        return None

    def solvable(r: int) -> bool:
        return len(pivots(_conditions(sequences, r))) <= r

    least = bisect_left(range(q + 1), True, lo=1, key=solvable)
    tried = {*range(least, min(least + _BEYOND, q)), *([q] if q <= _MAX_FORCED else [])}
    for r in sorted(tried):
        solutions = islice(_solutions(_conditions(sequences, r), r), _TRIES)
        found = [roots for g in solutions if (roots := _roots(g)) is not None]
        best = max(found, key=_smallest_angle, default=None)
        if best is not None and (len(found) == 1 or _smallest_angle(best) > _CLOSE * pi / r):
            return best
    return _evenly_spread(q + 1) if q <= _MAX_EVEN else None


def _sequences(polynomials: Sequence[fmpq_mpoly]) -> Iterator[list[fmpq]]:
    """Yield a_0, …, a_s of every homogeneous part of degree 2 and more."""
    for polynomial in polynomials:
        parts: dict[int, list[fmpq]] = {}
        for (i, j), c in polynomial.to_dict().items():
            s, j = int(i + j), int(j)
            parts.setdefault(s, [fmpq(0)] * (s + 1))[j] = fmpq(c) / comb(s, j)
        yield from (a for s, a in parts.items() if s >= 2)


def _conditions(sequences: Sequence[Sequence[fmpq]], r: int) -> list[list[fmpq]]:
    return [list(a[t : t + r + 1]) for a in sequences for t in range(len(a) - r)]


def _solutions(conditions: list[list[fmpq]], r: int) -> Iterator[list[fmpq]]:
    """Yield coefficients of g, with as many chosen roots as there are degrees of freedom."""
    basis = kernel(conditions, r + 1)
    if not basis:
        return
    roots = _evenly_spread(r)
    for chosen in combinations(range(len(roots)), min(len(basis) - 1, r)):
        vanishing = [
            [fmpq(a) ** (r - j) * fmpq(b) ** j for j in range(r + 1)]
            for a, b in (roots[k] for k in chosen)
        ]
        yield from kernel([*conditions, *vanishing], r + 1)[:1]


def _roots(g: list[fmpq]) -> list[Direction] | None:
    """Return the (α, β) with Σ g_j α^(r−j) β^j = 0, if there are r different rational ones."""
    r = len(g) - 1
    directions: list[Direction] = []
    if g[r] == 0:
        directions.append((0, 1))
    for factor, multiplicity in fmpq_poly(g).factor()[1]:
        if factor.degree() != 1 or multiplicity > 1:
            return None
        directions.append(primitive([fmpq(1), -fmpq(factor[0]) / fmpq(factor[1])]))
    return sorted(directions, reverse=True) if len(directions) == r else None


def _smallest_angle(directions: list[Direction]) -> float:
    angles = sorted(atan2(b, a) % pi for a, b in directions)
    return (
        min(
            (
                (after - before) % pi
                for before, after in zip(angles, angles[1:] + angles[:1], strict=True)
            ),
            default=pi,
        )
        or pi
    )


def _evenly_spread(count: int) -> list[Direction]:
    """Return short integer vectors near the angles kπ/count, the axes among them."""
    reach = 4
    while True:
        grid = [
            (a, b)
            for a in range(reach + 1)
            for b in range(-reach, reach + 1)
            if gcd(a, b) == 1 and (a > 0 or b > 0)
        ]
        if len(grid) >= 4 * count:
            break
        reach *= 2
    angles = {v: atan2(v[1], v[0]) for v in grid}
    chosen: list[Direction] = []
    for k in range(count):
        goal = k * pi / count
        near = min(
            (v for v in grid if v not in chosen),
            key=lambda v: (round(abs((angles[v] - goal + pi / 2) % pi - pi / 2), 12), v),
        )
        chosen.append(near)
    return chosen
