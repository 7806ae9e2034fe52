"""How far rounding can take an expansion from exact arithmetic.

A term a·y^α meets few roundings: its coefficient's, one a variable where a centre is subtracted, one a
product, and the additions of its sum. So the error is at most γ_K Σ|a_α||y^α| with K the largest count
of any term. In a ball of radius R the sum is bounded by Cauchy and Schwarz: for the terms of degree s,

    Σ|a_α||y^α| ≤ (Σ a_α²/w_α)^(1/2) (Σ w_α y^(2α))^(1/2) ≤ R^s (Σ a_α²/w_α)^(1/2),    w_α = s!/α!,

and in a box by the half-widths. Conventions are those of :mod:`exactformer.execution.bounds`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import factorial, inf, prod, sqrt

import numpy as np

from exactformer.blueprint import Ball, Domain, Matrix
from exactformer.execution.expanding import Expansion, Monomial
from exactformer.execution.formats import FloatFormat
from exactformer.execution.fused_bounds import arithmetic_format, gamma
from exactformer.execution.fusing import roundings
from exactformer.execution.magnitudes import above, up


def expanded_bound(plan: Expansion, domain: Domain, module: FloatFormat) -> float:
    """Bound |computed − exact| over the domain for a module's format; infinite if nothing is known."""
    to = arithmetic_format(module)
    if any(to.round(c) != c for c in plan.centre):
        return inf  # the difference x − c would err by more than its own rounding
    return max(_bound(plan, matrix, domain, to, module) for matrix in plan.weights)


def _bound(
    plan: Expansion, matrix: Matrix, domain: Domain, to: FloatFormat, module: FloatFormat
) -> float:
    terms = [
        ((*plan.monomials[row], *plan.monomials[column]), value)
        if plan.low
        else (plan.monomials[column], value)
        for row, column, value in matrix
    ]
    degree = max((len(monomial) for monomial, _ in terms), default=0)
    with np.errstate(over="ignore", invalid="ignore"):
        absolute = _absolute(terms, domain)
    products = max(degree - 1, 0) + 1 + (1 if plan.low else 0)
    subtractions = degree if plan.centre else 0
    longest = max((len(row) for row in matrix.by_row.values()), default=1)
    additions = longest - 1 + (roundings(plan.low) if plan.low else 0)
    count = 1 + subtractions + products + additions
    # Underflow: every operation may lose tiny·(1 + |a| + |b|), and later factors enlarge that.
    reach = max([above(domain.extent(j)) for j in range(_dimension(plan))], default=1.0)
    largest = max((above(value) for _, value in terms), default=0.0)
    operations = len(plan.monomials) + 2 * matrix.nonzeros + 2 * plan.low + 2 * degree
    limit = 0.25 * min(float(to.largest), float(module.largest))
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.float64(max(1.0, reach)) ** degree * (2 + largest + reach)
        under = 8 * to.tiny * operations * grown
        error = float(up(np.asarray(gamma(count, to.unit) * absolute + under), 16))
        fits = absolute + error < limit and grown * (1 + largest) < limit
    if not fits:
        return inf
    if module is not to:
        error = float(up(np.asarray(error + module.unit * (absolute + error) + module.tiny), 8))
    return error


def _absolute(terms: list[tuple[Monomial, Fraction]], domain: Domain) -> float:
    """Bound Σ|a_α||y^α| over the domain."""
    if not isinstance(domain, Ball):
        sizes = [above(value) * prod(above(domain.extent(j)) for j in m) for m, value in terms]
        return float(up(np.asarray(sum(sizes)), 64 + len(terms) + max(len(m) for m, _ in terms)))
    by_degree: dict[int, list[tuple[Monomial, Fraction]]] = {}
    for monomial, value in terms:
        by_degree.setdefault(len(monomial), []).append((monomial, value))
    radius, total = np.float64(above(domain.radius)), np.float64(0)
    for s, own in by_degree.items():
        largest = max(abs(value) for _, value in own)  # squares neither overflow nor vanish
        squares = sum(above(value / largest) ** 2 / _orders(monomial) for monomial, value in own)
        total += sqrt(squares) * above(largest) * radius**s
    return float(up(np.asarray(total), 64 + 4 * len(terms)))


def _orders(monomial: Monomial) -> float:
    """Return w = s!/α!, in how many orders its variables can be written."""
    return factorial(len(monomial)) / prod(map(factorial, Counter(monomial).values()))


def _dimension(plan: Expansion) -> int:
    return sum(len(monomial) == 1 for monomial in plan.monomials)
