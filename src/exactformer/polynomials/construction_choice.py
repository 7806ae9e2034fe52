"""The choice of a construction by certified error.

Candidates are ranked by the leading order of what a fused module's certificate will say,

    Σ_i Σ_s |c_is| (s·E_i + (2s + a)·u),      E_i ≈ (d + 2)·u,

with |t_i| ≤ 1, weights c_is of powers or Chebyshev polynomials, and a additions; what is chosen is
judged by the certified bound, not by this estimate. Constructions other than the first are looked at
where that one costs more than half of a format's digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from exactformer.algebra.chebyshev import from_powers
from exactformer.algebra.rational import to_float
from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain
from exactformer.core.formats import FloatFormat
from exactformer.polynomials.constructions.scaled import scaled_beta
from exactformer.polynomials.run.halving import additions

DEFAULTS = ("scaled", "chebyshev")
"""The constructions that are chosen from unless one is named."""

_BETTER = 4.0
"""A construction other than the first is taken where its error is smaller by this factor."""


@dataclass(frozen=True)
class Candidate:
    """Ridge forms along common directions, and a construction."""

    construction: str
    forms: Sequence[RidgeForm]
    domain: Domain

    @property
    def tokens(self) -> int:
        """How many tokens it has."""
        return self.forms[0].width

    @cached_property
    def roundings(self) -> float:
        """Estimate the certified error of its closed form, in units of roundoff."""
        d, chebyshev = len(self.forms[0].variables), self.construction == "chebyshev"
        return max(
            _roundings(_weights(form, self.domain, chebyshev), d, chebyshev) for form in self.forms
        )

    def __str__(self) -> str:
        family, tokens = self.forms[0].family, f"{self.tokens:,} token{'s' * (self.tokens > 1)}"
        return f"{self.construction}, {tokens} along {family} directions"


def candidates(
    forms: Sequence[RidgeForm],
    domain: Domain,
    constructions: Sequence[str],
    number_format: FloatFormat,
    largest: float,
) -> list[Candidate]:
    """Return what was looked at, the choice first; ``largest`` is what errors compare with."""
    first = Candidate(constructions[0], forms, domain)
    if first.roundings <= largest / sqrt(number_format.unit):
        return [first]
    others = [Candidate(construction, forms, domain) for construction in constructions[1:]]
    best = min(others, key=lambda candidate: candidate.roundings, default=first)
    if best.roundings * _BETTER < first.roundings:
        first, others = best, [first, *(other for other in others if other is not best)]
    return [first, *others]


def _weights(form: RidgeForm, domain: Domain, chebyshev: bool) -> NDArray[np.float64]:
    """Return |c|, tokens × degrees, in floats: what leaves them counts as infinite."""
    columns = scaled_beta(form, domain).values()
    if not chebyshev:
        table = [[abs(to_float(c)) for c in column] for column in columns]
        return np.array(table).reshape(form.degree, form.width).T
    rows = [from_powers([Fraction(0), *row])[1:] for row in zip(*columns, strict=True)]
    table = [[abs(to_float(c)) for c in row] + [0.0] * (form.degree - len(row)) for row in rows]
    return np.array(table).reshape(form.width, form.degree)


def _roundings(weights: NDArray[np.float64], d: int, chebyshev: bool) -> float:
    """Return Σ_i Σ_s |c_is| (errors of the feature, of the recurrence and of the sum)."""
    n, q = weights.shape
    s = np.arange(1, q + 1)
    # Clenshaw: |T_s'| ≤ s², and b_s is a sum of up to q − s + 1 coefficients, each times j − s + 1.
    own = s**2 * (d + 2) + 4.0 * s**2 if chebyshev else s * (d + 2) + 2.0 * s
    with np.errstate(over="ignore", invalid="ignore"):
        total = float((weights * (own + 2 + additions(n))).sum())
    return total if total == total else inf
