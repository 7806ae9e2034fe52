"""Selection of terms: a forward search, its lower closure, elimination among powers of x.

A polynomial with few powers of x has more terms in an orthonormal basis (x⁵ brings p₃ and p₁ with
it), but never one outside the lower closure of its own. So the terms found by the forward search
are closed downwards, fitted without shrinkage, rewritten in powers of x, and the least significant
power is removed again and again until all that remain survive Bonferroni over the dictionary:
p-value ≤ significance / p, for p the number of all terms that could have been found.

A power must pass with two standard errors: the classical one, exact for normal noise of constant
variance, and one that holds whatever the variance of each row (HC3). If the law is in the
dictionary, a power that is not in the law then stays with probability at most ``significance`` for
all of them together. The errors reported are the larger of the two, those of the final model, as if
it had been known.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dictionary.change_of_basis import to_powers, to_products
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, lower_closure, products
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit, Threshold, eliminate
from exactformer.learning.laws.sparse.forward_search import Fit, Search, fit_few, threshold
from exactformer.learning.laws.sparse.standard_errors import RobustErrors

_MOST_TERMS = 1000
# Up to this condition number of the coefficients' correlations, float64 keeps enough digits.
_CONDITION = 1e8
_DIGITS = 80


@dataclass(frozen=True)
class Selection:
    """The terms that are there, as powers of x, with standard errors and the noise they imply."""

    exponents: list[Exponents]
    coefficients: list[Fraction]
    errors: Array
    variance: float
    freedom: float
    aliases: list[Exponents]


def select(
    terms: Terms, norms: Array, sample: Sample, output: int, significance: float
) -> Selection:
    """Find the terms of one output; ``norms`` are those of :func:`row_sums.square_norms`."""
    y = np.ascontiguousarray(sample.Y[:, output])
    level = significance / len(terms)
    # At least three observations per coefficient, so that the noise can be estimated.
    largest = int(min(_MOST_TERMS, max(1, sample.size // 3)))
    found = Search(terms, sample, norms, y, level, largest).run()
    closure = lower_closure([terms.exponents(j) for j in found.active])
    left, errors = _among_powers(closure, terms, sample, y, threshold(sample, y, level))
    freedom = sample.size - len(left.kept)
    return Selection(
        [closure[i] for i in left.kept],
        [Fraction(v) for v in left.values],
        errors,
        left.square / freedom if freedom > 0 else float("nan"),
        freedom,
        found.aliases,
    )


def _among_powers(
    closure: list[Exponents], terms: Terms, sample: Sample, y: Array, bound: Threshold
) -> tuple[ReducedFit, Array]:
    fit = fit_few(closure, terms, sample, y)
    phi = products(closure, terms.columns, sample.X)
    with localcontext(prec=_DIGITS):
        powers, left = _rewritten(closure, terms, fit)
        number = Decimal if powers.dtype == object else float
        robust = RobustErrors(
            sample, y, phi, fit, powers, to_products(closure, terms.columns, number)
        )
        return _settled(eliminate(left, bound), bound, robust)


def _rewritten(
    closure: list[Exponents], terms: Terms, fit: Fit
) -> tuple[NDArray[np.object_] | Array, ReducedFit]:
    """Return the change to powers and the coefficients of the powers, in as many digits as needed."""
    powers = to_powers(closure, terms.columns)
    inverse = powers @ fit.inverse @ powers.T
    if _condition(inverse) < _CONDITION:
        return powers, ReducedFit.all(powers @ fit.coefficients, inverse, fit.square)
    exact = to_powers(closure, terms.columns, Decimal)
    wide = exact @ _decimals(fit.inverse) @ exact.T
    return exact, ReducedFit.all(exact @ _decimals(fit.coefficients), wide, fit.square)


def _settled(left: ReducedFit, bound: Threshold, robust: RobustErrors) -> tuple[ReducedFit, Array]:
    """Remove what is not significant by the larger standard error either."""
    while left.kept:
        freedom = bound.size - len(left.kept)
        errors = robust.errors(left, freedom)
        if freedom <= 0:
            return left, errors
        statistic = np.abs(left.values.astype(np.float64)) / np.maximum(errors, 1e-300)
        j = int(np.argmin(statistic))
        if statistic[j] >= bound.critical_value(freedom):
            return left, errors
        left = left.without(j)
    return left, np.zeros(0)


def _condition(covariance: Array) -> float:
    scale = np.sqrt(covariance.diagonal())
    if not (np.isfinite(scale).all() and scale.all()):
        return np.inf
    spectrum = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    return float(spectrum[-1] / max(spectrum[0], 1e-300))


def _decimals(array: Array) -> NDArray[np.object_]:
    return np.array([Decimal(float(v)) for v in array.ravel()], dtype=object).reshape(array.shape)
