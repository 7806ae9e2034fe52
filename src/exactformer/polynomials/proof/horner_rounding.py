"""Bounds of the rounding errors of Horner's scheme in several variables.

The scheme is run on terms in place of numbers: every row holds the terms that it is the sum of. A
variable multiplies whole rows, so that a term meets one product per factor, as in
:mod:`exactformer.polynomials.proof.monomial_rounding`, whose bound holds; only additions are counted
here, step by step, as many as each term meets. A fused multiply-add would leave out roundings that are
counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from exactformer.core.domain import Domain
from exactformer.core.formats import FloatFormat
from exactformer.polynomials.proof.monomial_rounding import Sum, worst_bound
from exactformer.polynomials.run.horner_plan import Action, Leaf, Scheme
from exactformer.polynomials.run.monomial_plan import Monomial


def scheme_bound(scheme: Scheme, domain: Domain, module: FloatFormat) -> float:
    """Bound |computed − exact| over the domain for a module's format; infinite if nothing is known."""
    return worst_bound(sums(scheme), scheme.dimension, scheme.centre, domain, module)


@dataclass
class _Row:
    """The terms of a row, each as it was when it came: what it has met since is read off the row."""

    terms: list[tuple[Monomial, Fraction, int, int]] = field(default_factory=list)
    """Monomial, coefficient, additions of the row that it has not met, factors that it has not."""
    additions: int = 0
    factors: Monomial = ()

    def add(self, monomial: Monomial, value: Fraction, met: int = 0) -> None:
        """Take a term that is about to be added."""
        self.terms.append((monomial, value, self.additions - met, len(self.factors)))

    def add_leaves(self, leaves: tuple[Leaf, ...]) -> None:
        for j, value in leaves:
            self.add((1 + j,), value)
            self.additions += 1

    def add_product(self, j: int, other: _Row) -> None:
        """Add y_j times another row."""
        for monomial, value, met in other:
            self.add((*monomial, 1 + j), value, met)
        self.additions += 1

    def __iter__(self) -> Iterator[tuple[Monomial, Fraction, int]]:
        for monomial, value, before, already in self.terms:
            yield (*monomial, *self.factors[already:]), value, self.additions - before


def sums(scheme: Scheme) -> Iterator[Sum]:
    """Yield for every output, in order, the terms that the steps add up, and their additions."""
    rows: dict[int, _Row] = {}
    for step in scheme.steps:
        row = rows.get(step.level, _Row())
        match step.action:
            case Action.BEGIN:
                rows[step.level] = _begun(step.constant, step.leaves)
            case Action.CHAIN:
                for _, value in step.leaves:
                    row.factors += (1 + step.variable,)
                    row.add((), value)
                    row.additions += 1
            case Action.LEAVES:
                row.add_leaves(step.leaves)
            case Action.FOLD:
                row.add_product(step.variable, rows[step.level + 1])
            case Action.ADD:
                row.add_product(step.variable, _begun(step.constant, step.leaves))
            case Action.OUT:
                yield _finished(row)


def _begun(constant: Fraction, leaves: tuple[Leaf, ...]) -> _Row:
    row = _Row()
    row.add((), constant)
    row.add_leaves(leaves)
    return row


def _finished(row: _Row) -> Sum:
    terms, most = [], dict[int, int]()
    for monomial, value, additions in row:
        if value:
            terms.append((tuple(sorted(monomial)), value))
            most[len(monomial)] = max(additions, most.get(len(monomial), 0))
    return terms, most
