"""Forward search: which terms of the dictionary are significant, one pass over the data per round.

Given the terms A found so far and their residual r, term j would enter with the t-statistic

    t_j = ⟨φ_j, r⟩ / (σ̂_j ‖φ_j^⊥‖),        φ_j^⊥ the part of φ_j outside span A.

One pass over the data serves all p tests: it needs ⟨φ_j, r⟩ and the products of φ_j with the terms
that entered last. Features are made block by block and never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack, solve_triangular

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, below
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit, Threshold, eliminate
from exactformer.learning.laws.sparse.standard_errors import Judge

_ROUNDS = 100
_MOST_TERMS = 1000
# A term enters in one round with the strongest if its statistic is at least this share of theirs.
_TOGETHER = 0.5
# A term with less than this share of its square norm outside the model is an alias of the model.
ALIAS = 1e-10
# Terms with less than this share of their square norm outside the others' span lose digits in products.
DISTINCT = 1e-3
# How many terms that overlap with the model are looked at as possible aliases, and on which rows.
_CANDIDATES, _LIKELY, _HEAD = 20, 0.05, 1000
_FEW = 4
# Dependent terms are fitted with this share of their square norms added.
_SHADE = 1e-11
_EPS = float(np.finfo(float).eps)
# A difference of squares below this share of them is rounding.
_UNKNOWN = 1e-14
# Statistics that differ by less than this share are equal up to rounding.
_TIED = 1e-6
# Less than this share of ‖y‖ may be rounding of y and of the features.
_ROUNDING = 1e3 * _EPS


@dataclass(frozen=True)
class SearchResult:
    """Places of the terms found; ``aliases`` finds those that the data cannot tell from a law's."""

    active: list[int]
    aliases: Callable[[list[Exponents]], list[Exponents]]


@dataclass(frozen=True)
class Fit:
    """Weighted least squares on a few terms, without shrinkage.

    Where terms are nearly dependent, ``triangle`` (k, k + 1) is R of the QR decomposition [φ y] = QR
    without its last line: products φᵀφ have lost the digits that decide between such terms.
    """

    coefficients: Array
    inverse: Array
    residual: Array
    square: float
    triangle: Array | None = None

    def largest_leverage(self, phi: Array, weight: Array) -> float:
        """Return the largest φᵀ (ΦWΦᵀ)⁻¹ φ of the rows φ; more than that if terms are dependent."""
        if self.triangle is None:
            return float((self.inverse @ phi * phi).sum(axis=0).max())
        # The inverse of dependent terms is rounding. Q needs none, and what it adds only adds.
        orthonormal = np.linalg.qr((phi * np.sqrt(weight)).T).Q
        return float((np.square(orthonormal).sum(axis=1) / weight).max())


@dataclass
class Search:
    """The forward search of one output.

    ``norms`` are Σ_i w_i φ_j(x_i)² and ``known`` the products of all terms with those that were in the
    model, by place; both are the same for every output. ``square`` is ‖y‖² and ``spread`` ‖y − ȳ‖.
    """

    terms: Terms
    norms: Array
    threshold: Threshold
    square: float
    spread: float
    design: Design
    y: Array
    known: dict[int, Array] = field(default_factory=dict, kw_only=True)

    @property
    def floor(self) -> float:
        """The least ‖r‖² that is more than rounding."""
        return (_EPS / _ROUNDING * self.threshold.rounding) ** 2

    def run(self) -> SearchResult:
        """Add significant terms and drop those they explain away, until nothing changes."""
        active, seen = [0], {frozenset([0])}
        fit, outside = self._fit(active), self.norms
        for _ in range(_ROUNDS):
            active, fit = self._settled(active, fit)
            inner, outside = self._against(active, fit.residual)
            chosen = self._affordable(active, self._entering(inner, outside, fit, len(active)))
            before = len(active)
            active, fit = self._joined(active, chosen, fit)
            if len(active) == before or frozenset(active) in seen:
                break
            seen.add(frozenset(active))
        return SearchResult(active, partial(self._aliases, active, outside))

    def _settled(self, active: list[int], fit: Fit) -> tuple[list[int], Fit]:
        """Remove terms that later ones have made insignificant, and fit again; the constant stays."""
        start = ReducedFit.all(fit.coefficients, fit.inverse, fit.square)
        left = eliminate(start, self.threshold, protect=0)
        if len(left.kept) < len(active):
            active = [active[i] for i in left.kept]
            fit = self._fit(active)
        return active, fit

    def _joined(self, active: list[int], entering: list[int], fit: Fit) -> tuple[list[int], Fit]:
        """Add terms that are not combinations of the model and of each other, and fit again."""
        if not entering:
            return active, fit
        wider = self._fit([*active, *entering])
        if wider.triangle is None:
            return [*active, *entering], wider
        kept = independent(wider.triangle[:, :-1], entering)
        if len(kept) == len(entering):
            return [*active, *entering], wider
        return self._joined(active, kept, fit)

    def _against(self, active: list[int], residual: Array) -> tuple[Array, Array]:
        """Return ⟨φ_j, r⟩ and ‖φ_j^⊥‖² for all terms."""
        new = [j for j in active if j not in self.known]
        inner = self._products(active, new, residual)
        self.known.update({j: inner[:, i + 1].copy() for i, j in enumerate(new)})
        against = np.array([self.known[j] for j in active])
        inside = solve_lower(factored(against[:, active]), against)
        return inner[:, 0], self.norms - np.square(inside).sum(axis=0)

    def _entering(self, inner: Array, outside: Array, fit: Fit, size: int) -> list[int]:
        """Return the terms whose t-statistic on entering is significant, strongest first."""
        freedom = self.threshold.size - size - 1
        if freedom < 1:
            return []
        able = outside > ALIAS * self.norms
        gain = np.zeros_like(inner)
        gain[able] = np.abs(inner[able]) / np.sqrt(outside[able])
        # Where a term explains all, the difference is rounding, and so would be the order of terms.
        left = np.maximum(fit.square - gain**2, max(self.floor, _UNKNOWN * fit.square))
        scale = np.sqrt(np.maximum(left, np.finfo(float).tiny) / freedom)
        statistic = np.where(gain > self.threshold.rounding, gain / scale, 0.0)
        least = max(self.threshold.critical_value(freedom), _TOGETHER * float(statistic.max()))
        found = np.flatnonzero(statistic >= least)
        return [int(found[i]) for i in strongest_first(statistic[found])]

    def _affordable(self, active: list[int], entering: list[int]) -> list[int]:
        """Return those of ``entering`` with which the lower closure stays small enough to fit."""
        if not entering:
            return []
        closed = {beta for j in active for beta in below(self.terms.exponents(j))}
        largest, chosen = largest_closure(self.threshold.size), []
        for j in entering:
            wider = closed.union(below(self.terms.exponents(j)))
            if len(wider) <= largest:
                closed = wider
                chosen.append(j)
        return chosen

    def _aliases(self, active: list[int], outside: Array, law: list[Exponents]) -> list[Exponents]:
        """Return terms x^α that the model, a law in it and lower powers of x^α add up to."""
        model = [*(self.terms.exponents(j) for j in active), *law]
        share = np.divide(
            self.norms - outside, self.norms, out=np.zeros_like(outside), where=self.norms > 0
        )
        likely = np.argsort(-share, kind="stable")[: _CANDIDATES + len(active)].tolist()
        known = {beta for alpha in model for beta in below(alpha)}
        candidates = [self.terms.exponents(j) for j in likely if share[j] > _LIKELY]
        lists = [
            [*sorted({*model, *below(alpha)} - {alpha}), alpha]
            for alpha in candidates
            if alpha not in known
        ]
        pairs = zip(lists, self._dependent(lists), strict=True)
        return [terms[-1] for terms, dependent in pairs if dependent]

    def _fit(self, active: list[int]) -> Fit:
        return fit_few(self.design.at(active), self.design.sample.weight, self.y)

    def closed(self, closure: list[Exponents]) -> tuple[Fit, Judge]:
        """Fit all terms of a closure, and return the judge of the models within it."""
        phi, sample = self.design.few(closure), self.design.sample
        judge = Judge(sample, self.y, np.ascontiguousarray(phi.T))
        return fit_few(phi, sample.weight, self.y), judge

    def _products(self, active: list[int], new: list[int], residual: Array) -> Array:
        return self.design.inner_products(np.vstack([residual, self.design.at(new)]))

    def _dependent(self, lists: list[list[Exponents]]) -> list[bool]:
        """A few rows are asked first: what they have outside the span, all of them have at least."""
        if not lists:
            return []
        head = min(len(self.y), _HEAD)
        sizes = np.linalg.norm(self.design.few([terms[-1] for terms in lists], slice(head)), axis=1)
        place = {alpha: i for i, alpha in enumerate({alpha for terms in lists for alpha in terms})}
        few = self.design.few([*place], slice(min(head, _FEW * max(map(len, lists)))))
        found = []
        for terms, size in zip(lists, sizes.tolist(), strict=True):
            own = few[[place[alpha] for alpha in terms], : _FEW * len(terms)]
            able = rows_to_spare(len(self.y), len(terms) - 1)
            likely = able and _outside(own) < np.sqrt(ALIAS) * size
            found.append(likely and all(self._alias(terms, n) for n in {head, len(self.y)}))
        return found

    def _alias(self, terms: list[Exponents], rows: int) -> bool:
        """Whether so many rows have the last of some terms in the span of the others."""
        columns = self.design.few(terms, slice(rows))
        return bool(_outside(columns) < np.sqrt(ALIAS) * np.linalg.norm(columns[-1]))


def strongest_first(statistics: Array) -> list[int]:
    """Return the places in falling order; those that differ by rounding alone, in their own order.

    Terms that the model makes dependent on each other would enter with the same statistic. Which is
    the first must not depend on the order of the rows.
    """
    order = np.argsort(-statistics, kind="stable")
    falls = statistics[order][1:] < (1 - _TIED) * statistics[order][:-1]
    return (
        [int(j) for j in order[np.lexsort((order, np.cumsum([False, *falls])))]]
        if len(order)
        else []
    )


def rows_to_spare(rows: float, others: int) -> bool:
    """Whether so many rows could have contradicted that a term is a combination of others."""
    return min(rows, _HEAD) >= 2 * others + 2


def _outside(columns: Array) -> float:
    """Return how much of the last of some columns (k, rows) is outside the span of the others."""
    return float(abs(lapack.dgeqrf(columns.T)[0][len(columns) - 1, -1]))


def largest_closure(size: float) -> int:
    """Return how many terms may be fitted to so many observations: three for each, for the noise."""
    return int(min(_MOST_TERMS, max(1, size // 3)))


def threshold_of(level: float, size: float, square: float) -> Threshold:
    """Return the threshold for coefficients of ``size`` observations with ‖y‖² = ``square``."""
    return Threshold(level, size, _ROUNDING * float(np.sqrt(square)))


def fit_few(phi: Array, weight: Array, y: Array) -> Fit:
    """Fit a few terms, given by their features (k, N)."""
    weighted = phi * weight
    gram = phi @ weighted.T
    if (distinct := solve_distinct(gram)) is None:
        fit = fit_triangle(triangle_of(np.vstack([phi, y]) * np.sqrt(weight)))
        return replace(fit, residual=y - fit.coefficients @ phi)
    factor, inverse = distinct
    coefficients, residual = np.zeros(len(phi)), y
    for _ in range(3):  # the later rounds remove the rounding of the first
        coefficients = coefficients + solve_factored(factor, weighted @ residual)
        residual = y - coefficients @ phi
    return Fit(coefficients, inverse, residual, float(weight @ residual**2))


def triangle_of(columns: Array) -> Array:
    """Return R of the QR decomposition of some columns (k, rows)."""
    return np.asarray(np.linalg.qr(columns.T, mode="r"))


def fit_triangle(triangle: Array) -> Fit:
    """Fit terms, given R of the QR decomposition [φ y] = QR; rows are not at hand for a residual."""
    k = triangle.shape[1] - 1
    padded = np.zeros((k + 1, k + 1))
    padded[: len(triangle)] = triangle
    own = padded[:k, :k]
    # What is below the rounding of a term is not zero but unknown.
    least = _EPS * np.linalg.norm(own, axis=0)
    places = np.arange(k)
    own[places, places] = np.where(np.abs(own.diagonal()) < least, least, own.diagonal())
    root = solve_triangular(own, np.eye(k))
    coefficients = solve_triangular(own, padded[:k, k])
    square = float(padded[k, k] ** 2)
    return Fit(coefficients, root @ root.T, coefficients, square, padded[:k])


def independent(triangle: Array, entering: list[int]) -> list[int]:
    """Return those of ``entering``, the last columns of R, that the columns before do not add up to."""
    kept = triangle.shape[1] - len(entering)
    shares = shares_outside(triangle, kept)[kept:]
    return [j for j, share in zip(entering, shares.tolist(), strict=True) if share > ALIAS]


def shares_outside(columns: Array, kept: int = 0) -> Array:
    """Return what share of each column's square norm is outside the span of those before it.

    Columns that are combinations of others do not add to the span, unless among the first ``kept``.
    """
    basis, shares = np.zeros((columns.shape[1], len(columns))), np.zeros(columns.shape[1])
    n = 0
    for i, column in enumerate(columns.T):
        left = column / np.linalg.norm(column)
        for _ in range(2):  # the second removes the rounding of the first
            left = left - basis[:n].T @ (basis[:n] @ left)
        shares[i] = left @ left
        if i < kept or shares[i] > ALIAS:
            basis[n] = left / np.sqrt(shares[i])
            n += 1
    return shares


def solve_distinct(gram: Array) -> tuple[Array, Array] | None:
    """Return the lower Cholesky factor of a Gram matrix and its inverse.

    None unless each term has enough outside the span of all others for its products to tell.
    """
    factor, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        return None
    inverse = solve_factored(factor, np.eye(len(gram)))
    told = (gram.diagonal() * inverse.diagonal()).max() < 1 / DISTINCT
    return (factor, inverse) if told else None


# The wrappers around these routines take longer than the routines on a few terms.


def factored(gram: Array) -> Array:
    """Return the lower Cholesky factor of a Gram matrix.

    Where terms are dependent, a shade of shrinkage makes it definite: a term that others replace then
    has a huge variance and is the first to be eliminated.
    """
    factor, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        factor, failed = lapack.dpotrf(gram + np.diag(_SHADE * gram.diagonal()), lower=1)
    if failed:
        raise LinAlgError(f"the products of {len(gram)} terms are not a positive definite matrix")
    return np.asarray(factor)


def solve_factored(factor: Array, right: Array) -> Array:
    """Solve with a matrix whose lower Cholesky factor is given."""
    return np.asarray(lapack.dpotrs(factor, right, lower=1)[0])


def solve_lower(triangle: NDArray[Any], right: Array) -> Array:
    """Solve with a lower triangular matrix that has no zero on its diagonal."""
    return np.asarray(lapack.dtrtrs(triangle, right, lower=1)[0])
