"""The function of a self-selecting transformer, in closed form.

Once every token is proven to select itself, nothing of the n × n attention is left but

    output = b + Σ_i P_i(F_i · x),      deg P_i ≤ q,

with P_i known exactly from the run on polynomials. A fused form is these numbers: what a matrix
product and a Horner pass need, O(n(d + q)) work a point instead of O(n³).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from exactformer.blueprint import Matrix

if TYPE_CHECKING:
    from exactformer.execution.symbolic import SymbolicRun

GROUP = 64
"""Tokens are summed in groups of this size, then the groups."""

SHORT = 8
"""A sum of more terms than this is halved first: few roundings, whatever the order of the rest."""


@dataclass(frozen=True)
class FusedForm:
    """F (n × d), the coefficients of the P_i (n × q, powers 1 … q) and b, all exact."""

    features: Matrix
    coefficients: Matrix
    bias: Fraction

    def additions(self) -> int:
        """Return how many roundings a term meets in the sum over tokens."""
        n = self.features.rows
        return _roundings(min(n, GROUP)) + _roundings(-(-n // GROUP))


def _roundings(terms: int) -> int:
    """Return the additions a term meets: one for each halving, then those of a short sum."""
    halvings = 0
    while terms > SHORT:
        terms, halvings = terms - terms // 2, halvings + 1
    return halvings + max(terms - 1, 0)


def fuse(run: SymbolicRun) -> FusedForm:
    """Read the closed form off a symbolic run; right wherever selection is proven."""
    from exactformer.algebra.rational import to_fmpq, to_fraction

    entries: dict[tuple[int, int], Fraction] = {}
    bias = run.blueprint.readout.bias
    for i, polynomial in enumerate(run.readout):
        for s, coefficient in enumerate(polynomial.coeffs()):
            value = to_fraction(to_fmpq(coefficient))
            if s == 0:
                bias += value
            else:
                entries[i, s - 1] = value
    features = run.blueprint.embedding.features
    degree = max(max(polynomial.degree(), 0) for polynomial in run.readout)
    return FusedForm(features, Matrix.of(features.rows, degree, entries), bias)
