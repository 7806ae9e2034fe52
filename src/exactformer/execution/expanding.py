"""The function of a certified transformer, multiplied out: fewer operations where tokens are many.

A dense polynomial of degree 5 in 10 variables has 3003 terms, its 2002 tokens 30,030 multiply-adds a
point. Once the identity is proven, the terms may be evaluated in place of the tokens. With y = x − c
there are two ways:

* few terms: every monomial is a product of two smaller ones, and one matrix product adds them up;
* many terms: with φ_a(y) all monomials up to degree a = ⌈q/2⌉ and φ_b, b = ⌊q/2⌋, its beginning,

      Q(c + y) = φ_b(y)ᵀ M φ_a(y),

  where nearly all the work is in the matrix product with M, which processors do best.

An expansion is the plan of such an evaluation: exact numbers, nothing that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb

from exactformer.blueprint import Matrix

Monomial = tuple[int, ...]
"""The variables of a product, in ascending order; () is 1."""

Terms = Mapping[tuple[int, ...], Fraction]
"""{exponents: coefficient}."""

CHEAP = 10
"""Multiply-adds of a matrix product that cost about as much as one operation entry by entry."""

CALL = 4
"""What starting an operation on a row of a block costs, in operations entry by entry."""


@dataclass(frozen=True)
class Expansion:
    """Rows of monomials to compute, and how outputs are read off them.

    Rows begin with 1, y_1, …, y_d. Then each step (j, first, last) appends the rows ``first`` to
    ``last`` times row j. Without ``low`` an output is Σ_r W[r] row_r, with it
    Σ_l row_l Σ_r M[l, r] row_r.
    """

    centre: tuple[Fraction, ...]
    monomials: tuple[Monomial, ...]
    steps: tuple[tuple[int, int, int], ...]
    weights: tuple[Matrix, ...]
    """For every output 1 × rows, or low × rows."""
    low: int = 0

    @property
    def cost(self) -> float:
        """Operations entry by entry, with those of matrix products counted for what they take."""
        rows, outputs = len(self.monomials), len(self.weights)
        products = sum(m.rows * m.columns for m in self.weights) / CHEAP
        return rows + CALL * len(self.steps) + products + 2 * self.low * outputs


def expand(
    polynomials: Sequence[Terms], dimension: int, centre: Sequence[Fraction]
) -> Expansion | None:
    """Plan the evaluation of polynomials in y = x − c; ``None`` where there is nothing to multiply."""
    wanted = {_monomial(a) for terms in polynomials for a in terms}
    degree = max(map(len, wanted), default=0)
    if degree < 2:
        return None
    offset = tuple(centre) if any(centre) else ()
    products = _products(wanted, dimension)
    single = _plan(products, polynomials, offset)
    if comb(dimension + (degree + 1) // 2, dimension) > 2 * single.cost:
        return single  # far more monomials than are wanted
    return min(single, _split(polynomials, dimension, degree, offset), key=lambda plan: plan.cost)


def _plan(
    products: tuple[list[Monomial], list[tuple[int, int, int]]],
    polynomials: Sequence[Terms],
    centre: tuple[Fraction, ...],
) -> Expansion:
    monomials, steps = products
    row = {monomial: r for r, monomial in enumerate(monomials)}
    weights = tuple(
        Matrix.of(1, len(monomials), {(0, row[_monomial(a)]): c for a, c in terms.items()})
        for terms in polynomials
    )
    return Expansion(centre, tuple(monomials), tuple(steps), weights)


def _products(
    wanted: set[Monomial], dimension: int
) -> tuple[list[Monomial], list[tuple[int, int, int]]]:
    """Return rows and steps that reach every monomial wanted, halves before wholes."""
    monomials: list[Monomial] = [(), *((j,) for j in range(dimension))]
    row = {monomial: r for r, monomial in enumerate(monomials)}
    steps = []

    def reach(monomial: Monomial) -> int:
        if monomial not in row:
            # Every other variable: the halves of a power are (nearly) equal, and computed once.
            first, second = reach(monomial[1::2]), reach(monomial[::2])
            row[monomial] = len(monomials)
            monomials.append(monomial)
            steps.append((first, second, second + 1))
        return row[monomial]

    for monomial in sorted(wanted, key=lambda m: (len(m), m)):
        reach(monomial)
    return monomials, steps


def _split(
    polynomials: Sequence[Terms], dimension: int, degree: int, centre: tuple[Fraction, ...]
) -> Expansion:
    """Plan φ_bᵀ M φ_a, each monomial shared evenly between the two sides."""
    high, low = degree - degree // 2, comb(dimension + degree // 2, dimension)
    monomials: list[Monomial] = [()]
    steps = []
    for s in range(1, high + 1):
        for j in range(dimension) if s > 1 else ():
            # y_j times the monomials of degree s − 1 in y_j, …, y_d, which end their block.
            count = comb(dimension - j + s - 2, s - 1)
            steps.append((1 + j, len(monomials) - count, len(monomials)))
        monomials += combinations_with_replacement(range(dimension), s)
    row = {monomial: r for r, monomial in enumerate(monomials)}
    weights = []
    for terms in polynomials:
        entries = {}
        for a, c in terms.items():
            monomial = _monomial(a)
            entries[row[monomial[1::2]], row[monomial[::2]]] = c
        weights.append(Matrix.of(low, len(monomials), entries))
    return Expansion(centre, tuple(monomials), tuple(steps), tuple(weights), low)


def _monomial(exponents: Sequence[int]) -> Monomial:
    return tuple(j for j, e in enumerate(exponents) for _ in range(e))
