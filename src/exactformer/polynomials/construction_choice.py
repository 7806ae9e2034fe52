"""The choice of directions and construction: by certified error first, by tokens second.

Candidates are ranked by the leading order of what a fused module's certificate will say,

    Σ_i Σ_s |c_is| (s·E_i + (2s + a)·u),      E_i ≈ (d + 2)·u,

with |t_i| ≤ 1, weights c_is of powers or Chebyshev polynomials, and a additions; what is chosen is
judged by the certified bound, not by this estimate. The narrowest directions come first. Others are
looked at where these cost more than half of a format's digits, or where terms cancel much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from exactformer.algebra.chebyshev import from_powers
from exactformer.algebra.rational import to_float
from exactformer.algebra.ridge import RidgeForm
from exactformer.algebra.ridge.lattice import lattice_width
from exactformer.core.domain import Domain
from exactformer.core.formats import FloatFormat
from exactformer.errors import ExactformerError
from exactformer.polynomials.constructions.scaled import scaled_beta
from exactformer.polynomials.run.closed_form import roundings

DEFAULTS = ("scaled", "chebyshev")
"""The constructions that are chosen from unless one is named."""

_BETTER = 4.0
"""A construction other than the first is taken where its error is smaller by this factor."""

_MUCH_BETTER = 16.0
"""Tailored or lattice directions replace fewer ones where their error is smaller by this factor."""

_MAX_SPREAD = 500
"""Directions of the lattice up to which twice as many are tried."""

_CANCELS = 64
"""Cancellation from which the general families are looked at next to directions found by structure."""


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
    forms: Callable[[str], list[RidgeForm]],
    domain: Domain,
    constructions: Sequence[str],
    directions: str,
    number_format: FloatFormat,
    largest: Callable[[], float],
) -> list[Candidate]:
    """Return what was looked at, the choice first.

    ``forms`` makes ridge forms along a family of directions, ``largest`` is what errors compare with;
    it is called after forms have been found to fit.
    """
    first = Candidate(constructions[0], forms(directions), domain)
    scale = largest()
    half_of_the_digits = scale / sqrt(number_format.unit)
    looked_at = [first]
    penalty = {id(first): 1.0}

    def add(own: Sequence[RidgeForm], names: Sequence[str], factor: float) -> None:
        for construction in names:
            looked_at.append(Candidate(construction, own, domain))
            penalty[id(looked_at[-1])] = factor

    def look_at(family: str, factor: float) -> None:
        try:
            add(forms(family), constructions, factor)
        except ExactformerError:  # too wide, or too costly to find
            return

    if not first.roundings <= half_of_the_digits:
        add(first.forms, constructions[1:], _BETTER)
    if directions == "auto":
        d, q = len(first.forms[0].variables), first.forms[0].degree
        found, lattice = first.forms[0].family, lattice_width(d, q)
        if found == "fewest" and first.roundings > _CANCELS * scale * q * (d + 4):
            look_at("tailored", _MUCH_BETTER)
            if lattice <= _MAX_SPREAD:
                look_at("lattice", _MUCH_BETTER)
        if d > 1 and lattice <= _MAX_SPREAD and not first.roundings <= half_of_the_digits:
            look_at("spread", _BETTER)
    best = min(looked_at, key=lambda candidate: candidate.roundings * penalty[id(candidate)])
    return [best, *(candidate for candidate in looked_at if candidate is not best)]


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
        total = float((weights * (own + 2 + roundings(n))).sum())
    return total if total == total else inf
