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

HC3 errors grow when a few rows have much leverage, and each good power removed makes them grow
further, down to nothing. So a power that only HC3 rejects is removed only if the rows agree: where
significantly more than half of them, each left out, are nearer to the law with it, and the median
residual grows without it, it stays, and is reported as ``disputed``.

On nearly exact data the smallest systematic error is significant. A power without which ‖r‖ grows by
less than ``relevance`` times the spread of y is removed, unless the law is exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dictionary.change_of_basis import (
    enough_digits,
    to_powers,
    to_products,
)
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, lower_closure
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sparse.backward_elimination import (
    ReducedFit,
    Threshold,
    eliminate,
    sparse_product,
)
from exactformer.learning.laws.sparse.forward_search import (
    ALIAS,
    Fit,
    Search,
    SearchResult,
    shares_outside,
)
from exactformer.learning.laws.sparse.standard_errors import Judge

# Up to this condition number of the coefficients' correlations, float64 keeps enough digits.
_CONDITION = 1e8
# A term with less than this share of another's size has no part in it.
_NOTICED = 1e-6

Relations = dict[int, set[int]]
"""Places of terms that are combinations of others, and the places of these."""


# Residuals below this share of y are rounding: the law is exact and every term counts.
_EXACT = 1e-9
# The path: how many terms more than the law, from closures of which size, and how many rows judge.
_BEYOND = 10
_WIDEST = 80
_JUDGES = 5000


@dataclass(frozen=True)
class Rules:
    """When a term stays: the chance of a false one, and the least growth of ‖r‖ without it."""

    significance: float = 0.01
    relevance: float = 0.0


@dataclass(frozen=True)
class Selection:
    """The terms that are there, as powers of x, with standard errors and the noise they imply.

    ``disputed`` are terms that most rows support although their HC3 errors are large, ``irrelevant``
    those that were significant but too small to matter; ``path`` makes models from few to many terms,
    ``aliases`` finds the terms that the data cannot tell from these. Both take long, and are asked for
    of the law alone.
    """

    exponents: list[Exponents]
    coefficients: list[Fraction]
    errors: Array
    variance: float
    freedom: float
    aliases: Callable[[], list[Exponents]]
    disputed: list[Exponents]
    irrelevant: list[Exponents]
    path: Callable[[], list[Step]]


def select(search: Search, rules: Rules) -> Selection:
    """Find the terms of one output.

    Powers of the closure go that are not significant, or too small to matter.
    """
    found, terms, bound = search.run(), search.terms, search.threshold
    closure = lower_closure([terms.exponents(j) for j in found.active])
    fit, judge = search.closed(closure)
    with enough_digits(closure, terms.columns):
        whole, back, relations = _among_powers(closure, terms, fit)
        settled = _settled(eliminate(whole, bound).placed(back), bound, judge)
        left = _relevant(settled, search, rules.relevance)
        if len(left.kept) < len(settled.kept):
            left = _settled(left, bound, judge)
        freedom = bound.size - len(left.kept)
        errors = judge.errors(left, freedom)
        weak = np.zeros(0, dtype=bool)
        if freedom > 0:
            weak = _statistics(left, errors) < bound.critical_value(freedom)
        digits = partial(enough_digits, closure, terms.columns)
        return Selection(
            [closure[i] for i in left.kept],
            [Fraction(v) for v in left.values],
            errors,
            left.square / freedom if freedom > 0 else float("nan"),
            freedom,
            partial(_aliases, closure, relations, left.kept, found),
            [closure[left.kept[i]] for i in np.flatnonzero(weak)],
            [closure[i] for i in settled.kept if i not in left.kept],
            partial(_path, whole, left, back, closure, judge, digits),
        )


def _aliases(
    closure: list[Exponents], relations: Relations, law: list[int], found: SearchResult
) -> list[Exponents]:
    """Return the terms that the data cannot tell from combinations with those of a law."""
    hidden = [closure[j] for j, others in relations.items() if not others.isdisjoint(law)]
    others = found.aliases([closure[j] for j in law])
    return [*hidden, *(alpha for alpha in others if alpha not in hidden)]


def _among_powers(
    closure: list[Exponents], terms: Terms, fit: Fit
) -> tuple[ReducedFit, NDArray[Any], Relations]:
    """Return the fit of the closure in powers of x, the φ-coefficients of these, and relations.

    All have as many digits as the elimination needs. A power that the rows have as a combination of
    lower ones is left out: which of them would go first is otherwise a matter of rounding. The
    relations have its place, and the places of these.
    """
    number: type[Any] = float
    powers: NDArray[Any] = to_powers(closure, terms.columns)
    values: NDArray[Any] = fit.coefficients
    inverse: NDArray[Any] = fit.inverse
    dependent = _dependent(fit)
    if dependent or not _condition(powers @ inverse @ powers.T) < _CONDITION:
        powers, number = to_powers(closure, terms.columns, Decimal), Decimal
        if fit.triangle is None:
            values, inverse = _decimals(fit.coefficients), _decimals(fit.inverse)
        else:
            root = _inverse(_decimals(fit.triangle[:, :-1]))
            values, inverse = root @ _decimals(fit.triangle[:, -1]), _with_its_transpose(root)
    inverse = sparse_product(powers, sparse_product(powers, inverse).T)
    whole = ReducedFit.all(powers @ values, inverse, fit.square)
    back = to_products(closure, terms.columns, number)
    if not dependent:
        return whole, back, {}
    assert fit.triangle is not None
    sizes = np.linalg.norm(fit.triangle[:, :-1] @ back.astype(np.float64), axis=0)
    relations: Relations = {}
    for j in reversed(dependent):
        step = (whole.inverse[:, j] / whole.inverse[j, j]).astype(np.float64)
        there = np.abs(step) * sizes[whole.kept] > _NOTICED * sizes[j]
        relations[j] = {whole.kept[i] for i in np.flatnonzero(there)} - {j}
        whole = whole.without(j)
    return whole, back, relations


def _dependent(fit: Fit) -> list[int]:
    """Return the places of terms that are combinations of those before them."""
    if fit.triangle is None:
        return []
    return np.flatnonzero(shares_outside(fit.triangle[:, :-1]) <= ALIAS).tolist()


def _inverse(triangle: NDArray[Any]) -> NDArray[Any]:
    """Return the inverse of an upper triangle of Decimals."""
    k = len(triangle)
    found = np.full((k, k), Decimal(0), dtype=object)
    for i in reversed(range(k)):
        found[i, i] = 1 / triangle[i, i]
        found[i, i + 1 :] = -(triangle[i, i + 1 :] @ found[i + 1 :, i + 1 :]) * found[i, i]
    return found


def _with_its_transpose(triangle: NDArray[Any]) -> NDArray[Any]:
    """Return U Uᵀ of an upper triangle U of Decimals, without the products with zeros."""
    found = np.empty_like(triangle)
    for i in range(len(triangle)):
        found[i, : i + 1] = found[: i + 1, i] = triangle[: i + 1, i:] @ triangle[i, i:]
    return found


def _settled(left: ReducedFit, bound: Threshold, judge: Judge) -> ReducedFit:
    """Remove what is not significant by the larger standard error, unless most rows object.

    They compare with the model before any removal, so that many small losses do not add up unseen.
    """
    before: Any = None
    while left.kept:
        freedom = bound.size - len(left.kept)
        if freedom <= 0:
            return left
        statistic = _statistics(left, judge.errors(left, freedom))
        weak = np.flatnonzero(statistic < bound.critical_value(freedom))
        if before is None and len(weak):
            before = judge.left_out(left)
        for j in weak[np.argsort(statistic[weak])].tolist():
            smaller = left.without(j)
            if not judge.prefer(before, judge.left_out(smaller), bound.level):
                left = smaller
                break
        else:
            return left
    return left


def _statistics(left: ReducedFit, errors: Array) -> Array:
    """Return the size of each coefficient in units of its error; infinite where there is none."""
    with np.errstate(over="ignore"):
        return np.abs(left.values.astype(np.float64)) / np.maximum(errors, 1e-300)


def _relevant(left: ReducedFit, search: Search, relevance: float) -> ReducedFit:
    """Remove terms too small to matter, the smallest first."""
    if left.square <= _EXACT**2 * search.square:
        return left
    while left.kept and left.gains.min() < relevance * search.spread:
        left = left.without(int(np.argmin(left.gains)))
    return left


def _path(
    whole: ReducedFit,
    law: ReducedFit,
    back: NDArray[Any],
    closure: list[Exponents],
    judge: Judge,
    digits: Callable[[], AbstractContextManager[Any]],
) -> list[Step]:
    """Return models from none to some more terms than the law, each without the least of the next.

    Only the law itself, if it was chosen from a great many terms.
    """
    sample, y = judge.sample, judge.y
    rows = slice(None, None, max(1, len(y) // _JUDGES))
    share = sample.weight[rows] / sample.weight[rows].sum()
    spread = float(sample.weight @ (y - sample.mean(y)) ** 2)
    spread_here = float(share @ (y[rows] - share @ y[rows]) ** 2)
    if not (spread > 0 and spread_here > 0):
        return []
    with digits():
        return [
            Step(
                [closure[i] for i in model.kept],
                1 - model.square / spread,
                1 - float(share @ judge.left_out(model, rows) ** 2) / spread_here,
                model is law,
            )
            for model in sorted(_models(whole, law, back), key=lambda m: len(m.kept))
        ]


def _models(whole: ReducedFit, law: ReducedFit, back: NDArray[Any]) -> list[ReducedFit]:
    """Return the law, those below it, and some of those between it and the whole."""
    models, beyond = [law], len(law.kept) + _BEYOND
    below, above = law, whole
    quick = len(whole.kept) <= _WIDEST  # beyond, every model takes seconds
    while quick and below.kept:
        below = below.without(int(np.argmin(below.gains)))
        models.append(below)
    while quick and len(above.kept) > len(law.kept) + 1:
        gains = above.gains
        gains[[i for i, k in enumerate(above.kept) if k in law.kept]] = np.inf
        above = above.without(int(np.argmin(gains)))
        if len(above.kept) <= beyond:
            above = above if above.in_products else above.placed(back)
            models.append(above)
    return models


def _condition(covariance: Array) -> float:
    scale = np.sqrt(covariance.diagonal())
    if not (np.isfinite(scale).all() and scale.all()):
        return np.inf
    spectrum = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    return float(spectrum[-1] / max(spectrum[0], 1e-300))


def _decimals(array: Array) -> NDArray[np.object_]:
    return np.array([Decimal(float(v)) for v in array.ravel()], dtype=object).reshape(array.shape)
