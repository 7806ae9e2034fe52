"""The function of a certified transformer, multiplied out: fewer operations where tokens are many.

A dense polynomial of degree 5 in 10 variables has 3003 terms, its 2002 tokens 30,030 multiply-adds a
point. Once the identity is proven, the terms may be evaluated in place of the tokens. With y = x − c
and y_0 = 1 there are three ways, of which the cheapest is taken:

* products: every monomial is a product of two smaller ones, and one matrix product adds them up;
* halves: with φ_a all monomials up to degree a = ⌈q/2⌉ and φ_b, b = ⌊q/2⌋, its beginning,

      Q(c + y) = φ_b(y)ᵀ M φ_a(y);

* stairs: every term is y_l y_m, l ≤ m, times a monomial of degree q − 2 in y_0, …, y_l, and those of
  y_0, …, y_l come before all others in a suitable order, so that hardly a zero is multiplied:

      Q(c + y) = Σ_l y_l Σ_{m ≥ l} y_m Σ_r M_l[m, r] φ_r(y_0, …, y_l).

Nearly all the work is then in matrix products, which processors do best. An expansion is the plan of
such an evaluation: exact numbers, nothing that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb

from exactformer.core.matrix import Matrix

Monomial = tuple[int, ...]
"""The variables y_1, … of a product, in ascending order; () is 1."""

Terms = Mapping[tuple[int, ...], Fraction]
"""{exponents: coefficient}."""

Step = tuple[int, int, int]
"""(j, first, last): append the rows ``first`` to ``last``, each times row j."""

MATMUL_DISCOUNT = 10
"""Multiply-adds of a matrix product that cost about as much as one operation entry by entry."""

_CALL_COST = 2
"""What starting an operation on a row of a block costs, in operations entry by entry."""

_MOST_ROWS = 5000


@dataclass(frozen=True)
class Run:
    """Neighbouring sums: each times its own row from ``first`` on, added up, times row ``outer``."""

    count: int
    first: int | None = None
    outer: int | None = None


@dataclass(frozen=True)
class Reading:
    """Sums of rows from ``first`` on, by a matrix sums × columns for every output, and their runs."""

    first: int
    weights: tuple[Matrix, ...]
    runs: tuple[Run, ...]

    @property
    def cost(self) -> float:
        """What it takes beside reading each of its rows once."""
        sums, columns = self.weights[0].shape
        return (
            len(self.weights)
            * (sums * columns / MATMUL_DISCOUNT + 2 * sums + _CALL_COST * 3 * len(self.runs))
            + columns / 2
        )


@dataclass(frozen=True)
class Expansion:
    """Rows of monomials, 1, y_1, …, y_d and what the steps append, and how outputs are read off."""

    dimension: int
    centre: tuple[Fraction, ...]
    """Empty for the origin."""
    monomials: tuple[Monomial, ...]
    steps: tuple[Step, ...]
    readings: tuple[Reading, ...]

    @property
    def cost(self) -> float:
        """Operations entry by entry, with those of matrix products counted for what they take."""
        readings = sum(reading.cost for reading in self.readings)
        return len(self.monomials) + _CALL_COST * len(self.steps) + readings


def expand(
    polynomials: Sequence[Terms], dimension: int, centre: Sequence[Fraction]
) -> Expansion | None:
    """Plan the evaluation of polynomials in y = x − c; ``None`` where there is nothing to multiply."""
    terms = [{_monomial(a): c for a, c in table.items()} for table in polynomials]
    degree = max((len(monomial) for table in terms for monomial in table), default=0)
    if degree < 2:
        return None
    offset = tuple(centre) if any(centre) else ()
    plans = [_products(terms, dimension, offset)]
    if comb(dimension + (degree + 1) // 2, dimension) <= _MOST_ROWS:
        plans.append(_halves(terms, dimension, degree, offset))
    if comb(dimension + degree - 1, dimension + 1) <= _MOST_ROWS:
        plans.append(_stairs(terms, dimension, degree, offset))
    return min(plans, key=lambda plan: plan.cost)


def _monomial(exponents: Sequence[int]) -> Monomial:
    return tuple(1 + j for j, e in enumerate(exponents) for _ in range(e))


def _variables(dimension: int) -> list[Monomial]:
    return [(), *((j,) for j in range(1, dimension + 1))]


def _products(
    terms: Sequence[Mapping[Monomial, Fraction]], dimension: int, centre: tuple[Fraction, ...]
) -> Expansion:
    monomials = _variables(dimension)
    row = {monomial: r for r, monomial in enumerate(monomials)}
    steps: list[Step] = []

    def reach(monomial: Monomial) -> int:
        if monomial not in row:
            # Every other variable: the halves of a power are (nearly) equal, and computed once.
            first, second = reach(monomial[1::2]), reach(monomial[::2])
            row[monomial] = len(monomials)
            monomials.append(monomial)
            steps.append((first, second, second + 1))
        return row[monomial]

    for monomial in sorted({m for table in terms for m in table}, key=lambda m: (len(m), m)):
        reach(monomial)
    weights = tuple(
        Matrix.of(1, len(monomials), {(0, row[m]): c for m, c in table.items()}) for table in terms
    )
    reading = Reading(0, weights, (Run(1),))
    return Expansion(dimension, centre, tuple(monomials), tuple(steps), (reading,))


def _halves(
    terms: Sequence[Mapping[Monomial, Fraction]],
    dimension: int,
    degree: int,
    centre: tuple[Fraction, ...],
) -> Expansion:
    """Plan φ_bᵀ M φ_a, the variables of each monomial dealt out in turn to the two sides."""
    monomials, steps = _variables(dimension), list[Step]()
    for s in range(2, degree - degree // 2 + 1):
        block = len(monomials)
        for j in range(1, dimension + 1):
            # y_j times the monomials of degree s − 1 in y_j, …, y_d, which end their block.
            steps.append((j, block - comb(dimension - j + s - 1, s - 1), block))
        monomials += combinations_with_replacement(range(1, dimension + 1), s)
    row = {monomial: r for r, monomial in enumerate(monomials)}
    low = comb(dimension + degree // 2, dimension)
    weights = tuple(
        Matrix.of(low, len(monomials), {(row[m[1::2]], row[m[::2]]): c for m, c in table.items()})
        for table in terms
    )
    reading = Reading(0, weights, (Run(low, first=0),))
    return Expansion(dimension, centre, tuple(monomials), tuple(steps), (reading,))


def _stairs(
    terms: Sequence[Mapping[Monomial, Fraction]],
    dimension: int,
    degree: int,
    centre: tuple[Fraction, ...],
) -> Expansion:
    """Plan Σ_l y_l Σ_m y_m M_l φ(y_0, …, y_l), neighbouring l read together while few zeros result."""
    monomials, steps = _variables(dimension), list[Step]()
    block, order = 0, _variables(dimension)
    for s in range(2, degree - 1):
        # Of degree s in y_0 = 1, y_1, …, those with last variable y_j: y_j times the first of s − 1.
        following: list[Monomial] = []
        for j in range(dimension + 1):
            count = comb(j + s - 1, s - 1)
            steps.append((j, block, block + count))
            following += [(*m, j) if j else m for m in order[:count]]
        block, order = len(monomials), following
        monomials += following
    if degree == 2:
        order = order[:1]
    row = {monomial: r for r, monomial in enumerate(order)}
    readings = []
    for group in _groups(dimension, degree - 2):
        places: dict[Monomial, int] = {}
        runs = []
        for inner in group:
            start, count = len(places), dimension + 1 - inner
            places |= {(inner, inner + k): start + k for k in range(count)}
            runs.append(Run(count, first=inner, outer=inner))
        columns = comb(group[-1] + degree - 2, degree - 2)
        weights = []
        for table in terms:
            entries = {}
            for monomial, c in table.items():
                whole = (0,) * (degree - len(monomial)) + monomial
                if (place := places.get(whole[-2:])) is not None:
                    entries[place, row[tuple(j for j in whole[:-2] if j)]] = c
            weights.append(Matrix.of(len(places), columns, entries))
        readings.append(Reading(block, tuple(weights), tuple(runs)))
    return Expansion(dimension, centre, tuple(monomials), tuple(steps), tuple(readings))


def _groups(dimension: int, degree: int) -> list[list[int]]:
    """Return l = 0, …, d in groups whose numbers of columns are alike, within a factor of two."""
    groups: list[list[int]] = []
    for last in range(dimension, -1, -1):
        columns = comb(last + degree, degree)
        if groups and 2 * columns >= comb(groups[-1][-1] + degree, degree):
            groups[-1].insert(0, last)
        else:
            groups.append([last])
    return groups
