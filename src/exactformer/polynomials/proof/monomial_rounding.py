"""Bounds of the rounding errors of an expansion.

A term a·y^α meets few roundings: its coefficient's, one per variable where a centre is subtracted, one
per product, and the additions of its sum. So the error is at most Σ_s γ_{K_s} Σ|a_α||y^α|, the inner
sum over the terms of degree s, K_s the largest count of any of them. In a ball of radius R that sum is
bounded by Cauchy and Schwarz:

    Σ|a_α||y^α| ≤ (Σ a_α²/w_α)^(1/2) (Σ w_α y^(2α))^(1/2) ≤ R^s (Σ a_α²/w_α)^(1/2),    w_α = s!/α!,

and in a box by the half-widths. Conventions are those of
:mod:`exactformer.polynomials.proof.literal_rounding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import factorial, inf, prod

import numpy as np

from exactformer.core.domain import Ball, Domain
from exactformer.core.formats import FloatFormat
from exactformer.core.upper import Upper, above, gamma
from exactformer.polynomials.proof.closed_form_rounding import arithmetic_format
from exactformer.polynomials.run.closed_form import roundings
from exactformer.polynomials.run.monomial_plan import Expansion, Monomial


def expanded_bound(plan: Expansion, domain: Domain, module: FloatFormat) -> float:
    """Bound |computed − exact| over the domain for a module's format; infinite if nothing is known."""

    def sums(output: int) -> Sum:
        terms, additions = list(_terms(plan, output)), _additions(plan, output)
        return terms, dict.fromkeys({len(monomial) for monomial, _ in terms}, additions)

    outputs = range(len(plan.readings[0].weights))
    return worst_bound(map(sums, outputs), plan.dimension, plan.centre, domain, module)


Sum = tuple[list[tuple[Monomial, Fraction]], dict[int, int]]
"""The terms of an output, and by degree how many additions one of them meets at most."""


@np.errstate(all="ignore")
def worst_bound(
    outputs: Iterable[Sum],
    dimension: int,
    centre: tuple[Fraction, ...],
    domain: Domain,
    module: FloatFormat,
) -> float:
    """Bound |computed − exact| of sums of terms in y = x − c, each meeting a product per factor."""
    to = arithmetic_format(module)
    if any(to.round(c) != c for c in centre):
        return inf  # the difference x − c would err by more than its own rounding
    return max(_bound(*output, dimension, bool(centre), domain, to, module) for output in outputs)


def _bound(
    terms: list[tuple[Monomial, Fraction]],
    additions: dict[int, int],
    dimension: int,
    centred: bool,
    domain: Domain,
    to: FloatFormat,
    module: FloatFormat,
) -> float:
    sizes = _sizes(terms, domain)
    # A coefficient is rounded and multiplied by its monomial; a variable may have been a difference.
    counts = {s: 1 + (2 * s if centred else s) + additions[s] for s in sizes}
    absolute = sum(sizes.values(), start=Upper(0.0))
    noise = sum((gamma(counts[s], to.unit) * size for s, size in sizes.items()), start=Upper(0.0))
    reach = max(above(domain.extent(j)) for j in range(dimension))
    largest = max((above(value) for _, value in terms), default=0.0)
    grown = Upper(max(1.0, reach)) ** max(sizes, default=0) * (Upper(largest) + 2)
    # Underflow: of a product by tiny·(1 + |a| + |b|), of a sum by 3·tiny. With later factors that is
    # 3·tiny·grown at most for an operation that a term meets; later roundings at most double it.
    operations = len(terms) * max(counts.values(), default=0)
    error = noise + 6 * to.tiny * operations * grown
    # Sums of terms of which some factors are still missing must fit as well.
    fits = absolute + error < 0.5 * float(module.largest)
    if not (fits and len(terms) * grown < 0.5 * float(to.largest)):
        return inf
    if module is not to:
        error += module.unit * (absolute + error) + module.tiny
    return float(error)


def _terms(plan: Expansion, output: int) -> Iterator[tuple[Monomial, Fraction]]:
    """Yield the terms that the plan adds up, as it multiplies them together."""
    for reading in plan.readings:
        factors: list[Monomial] = []
        for run in reading.runs:
            outer = () if run.outer is None else plan.monomials[run.outer]
            rows = (
                [()] * run.count if run.first is None else plan.monomials[run.first :][: run.count]
            )
            factors += [(*outer, *row) for row in rows]
        for place, column, value in reading.weights[output]:
            yield (*factors[place], *plan.monomials[reading.first + column]), value


def _additions(plan: Expansion, output: int) -> int:
    """Return how many additions a term meets at most: in its sum, its run, and among the runs."""
    most, runs = 0, 0
    for reading in plan.readings:
        rows = reading.weights[output].by_row.values()
        counts = (len(row) - 1 + roundings(run.count) for row in rows for run in reading.runs)
        most = max([most, *counts])
        runs += len(reading.runs)
    return most + runs - 1  # the first run is added to zero


def _sizes(terms: list[tuple[Monomial, Fraction]], domain: Domain) -> dict[int, Upper]:
    """Bound Σ|a_α||y^α| over the domain, degree by degree."""
    by_degree: dict[int, list[tuple[Monomial, Fraction]]] = {}
    for monomial, value in terms:
        by_degree.setdefault(len(monomial), []).append((monomial, value))
    size = _in_a_ball if isinstance(domain, Ball) else _in_a_box
    return {s: size(s, own, domain) for s, own in by_degree.items()}


def _in_a_ball(degree: int, terms: list[tuple[Monomial, Fraction]], domain: Domain) -> Upper:
    largest = max(abs(value) for _, value in terms)  # squares neither overflow nor vanish
    squares = Upper([above((value / largest) ** 2 / _orders(m)) for m, value in terms])
    return squares.sum().root() * Upper.of(largest) * Upper.of(domain.extent(0)) ** degree


def _in_a_box(degree: int, terms: list[tuple[Monomial, Fraction]], domain: Domain) -> Upper:
    sizes = Upper([above(value) for _, value in terms])
    for k in range(degree):
        sizes *= np.array([above(domain.extent(monomial[k] - 1)) for monomial, _ in terms])
    return sizes.sum()


def _orders(monomial: Monomial) -> int:
    """Return w = s!/α!, in how many orders its variables can be written."""
    return factorial(len(monomial)) // prod(map(factorial, Counter(monomial).values()))
