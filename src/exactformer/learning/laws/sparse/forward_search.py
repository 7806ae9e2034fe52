"""Forward search: which terms of the dictionary are significant, one pass over the data per round.

Given the terms A found so far and their residual r, term j would enter with the t-statistic

    t_j = ⟨φ_j, r⟩ / (σ̂_j ‖φ_j^⊥‖),        φ_j^⊥ the part of φ_j outside span A.

One pass over the data serves all p tests: it needs ⟨φ_j, r⟩ and the products of φ_j with the terms
that entered last. Features are made block by block and never stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.row_sums import inner_products
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, lower_closure, products
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.backward_elimination import ReducedFit, Threshold, eliminate

_ROUNDS = 100
_MOST_TERMS = 1000
# A term enters in one round with the strongest if its statistic is at least this share of theirs.
_TOGETHER = 0.5
# A term with less than this share of its square norm outside the model is an alias of the model.
ALIAS = 1e-10
# How many terms that overlap with the model are looked at as possible aliases, and on which rows.
_CANDIDATES, _LIKELY, _HEAD = 20, 0.05, 1000
# Dependent terms are fitted with this share of their square norms added.
_SHADE = 1e-11
_EPS = float(np.finfo(float).eps)
# Less than this share of ‖y‖ may be rounding of y and of the features.
_ROUNDING = 1e3 * _EPS


@dataclass(frozen=True)
class SearchResult:
    """Places of the terms found, and the terms that these data cannot distinguish from them."""

    active: list[int]
    aliases: list[Exponents]


@dataclass(frozen=True)
class Fit:
    """Weighted least squares on a few terms, without shrinkage."""

    coefficients: Array
    inverse: Array
    residual: Array
    square: float


@dataclass
class Search:
    """One output's search. ``norms`` are Σ_i w_i φ_j(x_i)², the same for every output."""

    terms: Terms
    sample: Sample
    norms: Array
    y: Array
    level: float
    largest: int
    known: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.threshold = threshold(self.sample, self.y, self.level)

    @property
    def floor(self) -> float:
        """The least ‖r‖² that is more than rounding."""
        return (_EPS / _ROUNDING * self.threshold.rounding) ** 2

    def run(self) -> SearchResult:
        """Add significant terms and drop those they explain away, until nothing changes."""
        active, seen = [0], {frozenset([0])}
        outside = self.norms
        for _ in range(_ROUNDS):
            active, fit = self._settled(active)
            inner, outside = self._against(active, fit.residual)
            chosen = self._affordable(active, self._entering(inner, outside, fit, len(active)))
            active = active + chosen
            if not chosen or frozenset(active) in seen:
                break
            seen.add(frozenset(active))
        return SearchResult(active, self._aliases(active, outside))

    def _settled(self, active: list[int]) -> tuple[list[int], Fit]:
        """Fit, and remove terms that later ones have made insignificant; the constant stays."""
        fit = self._fit(active)
        start = ReducedFit.all(fit.coefficients, fit.inverse, fit.square)
        left = eliminate(start, self.threshold, protect=0)
        if len(left.kept) < len(active):
            active = [active[i] for i in left.kept]
            fit = self._fit(active)
        return active, fit

    def _fit(self, active: list[int]) -> Fit:
        return fit_few([self.terms.exponents(j) for j in active], self.terms, self.sample, self.y)

    def _against(self, active: list[int], residual: Array) -> tuple[Array, Array]:
        """Return ⟨φ_j, r⟩ and ‖φ_j^⊥‖² for all terms."""
        new = [j for j in active if j not in self.known]
        columns = products(
            [self.terms.exponents(j) for j in new], self.terms.columns, self.sample.X
        )
        inner = inner_products(self.terms, self.sample, np.column_stack([residual, columns]))
        self.known |= {j: inner[:, i + 1].copy() for i, j in enumerate(new)}
        against = np.column_stack([self.known[j] for j in active])
        inside = solve_triangular(np.linalg.cholesky(against[active]), against.T, lower=True)
        return inner[:, 0], self.norms - np.square(inside).sum(axis=0)

    def _entering(self, inner: Array, outside: Array, fit: Fit, size: int) -> list[int]:
        """Return the terms whose t-statistic on entering is significant, strongest first."""
        freedom = self.threshold.size - size - 1
        if freedom < 1:
            return []
        able = outside > ALIAS * self.norms
        gain = np.zeros_like(inner)
        gain[able] = np.abs(inner[able]) / np.sqrt(outside[able])
        left = np.maximum(fit.square - gain**2, self.floor)
        scale = np.sqrt(np.maximum(left, np.finfo(float).tiny) / freedom)
        statistic = np.where(gain > self.threshold.rounding, gain / scale, 0.0)
        least = max(self.threshold.critical_value(freedom), _TOGETHER * float(statistic.max()))
        found = np.flatnonzero(statistic >= least)
        return [int(j) for j in found[np.argsort(-statistic[found], kind="stable")]]

    def _affordable(self, active: list[int], entering: list[int]) -> list[int]:
        """Return those of ``entering`` with which the lower closure stays small enough to fit."""
        closed = set(lower_closure([self.terms.exponents(j) for j in active]))
        chosen = []
        for j in entering:
            wider = closed | set(lower_closure([self.terms.exponents(j)]))
            if len(wider) <= self.largest:
                closed = wider
                chosen.append(j)
        return chosen if len(chosen) < 2 else self._independent(active, chosen)

    def _independent(self, active: list[int], entering: list[int]) -> list[int]:
        """Return those of ``entering`` that are not combinations of the model and of each other."""
        exponents = [self.terms.exponents(j) for j in [*active, *entering]]
        columns = products(exponents, self.terms.columns, self.sample.X)
        columns *= np.sqrt(self.sample.weight)[:, None]
        triangle = np.asarray(np.linalg.qr(columns, mode="r"))
        outside = np.abs(triangle.diagonal()[len(active) :])
        sizes = np.linalg.norm(columns, axis=0)[len(active) :]
        able = np.zeros(len(entering), dtype=bool)
        able[: len(outside)] = outside > np.sqrt(ALIAS) * sizes[: len(outside)]
        return [j for j, independent in zip(entering, able, strict=True) if independent]

    def _aliases(self, active: list[int], outside: Array) -> list[Exponents]:
        """Return terms x^α that the model and lower powers of the same variables add up to."""
        model = [self.terms.exponents(j) for j in active]
        share = np.divide(
            self.norms - outside, self.norms, out=np.zeros_like(outside), where=self.norms > 0
        )
        likely = np.argsort(-share, kind="stable")[: _CANDIDATES + len(active)].tolist()
        known = set(lower_closure(model))
        found = []
        for alpha in (self.terms.exponents(j) for j in likely if share[j] > _LIKELY):
            if alpha in known:
                continue
            others = sorted({*model, *lower_closure([alpha])} - {alpha})
            if self._is_alias(alpha, others):
                found.append(alpha)
        return found

    def _is_alias(self, alpha: Exponents, others: list[Exponents]) -> bool:
        """Whether the rows have φ_α in the span of ``others``; a few of them are asked first."""
        X = self.sample.X
        return _explained(alpha, others, self.terms, X[:_HEAD]) and (
            len(X) <= _HEAD or _explained(alpha, others, self.terms, X)
        )


def _explained(alpha: Exponents, others: list[Exponents], terms: Terms, X: Array) -> bool:
    """Whether φ_α is a combination of ``others`` on these rows, with rows to spare."""
    if len(X) < 2 * len(others) + 2:
        return False
    columns = products([*others, alpha], terms.columns, X)
    # The last entry of R is the part of the last column outside the span of the others.
    last = np.asarray(np.linalg.qr(columns, mode="r"))[-1, -1]
    return bool(abs(last) < np.sqrt(ALIAS) * np.linalg.norm(columns[:, -1]))


def largest_closure(size: float) -> int:
    """Return how many terms may be fitted to so many observations: three for each, for the noise."""
    return int(min(_MOST_TERMS, max(1, size // 3)))


def threshold(sample: Sample, y: Array, level: float) -> Threshold:
    """Return the threshold for coefficients fitted to ``y``."""
    return threshold_of(level, sample.size, float(sample.weight @ y**2))


def threshold_of(level: float, size: float, square: float) -> Threshold:
    """Return the threshold for coefficients of ``size`` observations with ‖y‖² = ``square``."""
    return Threshold(level, size, _ROUNDING * float(np.sqrt(square)))


def fit_few(exponents: list[Exponents], terms: Terms, sample: Sample, y: Array) -> Fit:
    """Fit a few terms of the orthonormal basis."""
    phi = products(exponents, terms.columns, sample.X)
    weighted = phi * sample.weight[:, None]
    factor = factored(phi.T @ weighted)
    coefficients, residual = np.zeros(len(exponents)), y
    for _ in range(3):  # the later rounds remove the rounding of the first
        coefficients = coefficients + cho_solve(factor, weighted.T @ residual)
        residual = y - phi @ coefficients
    inverse = cho_solve(factor, np.eye(len(exponents)))
    return Fit(coefficients, inverse, residual, float(sample.weight @ residual**2))


def factored(gram: Array) -> tuple[Array, bool]:
    """Factor a Gram matrix; where terms are dependent, a shade of shrinkage makes it definite.

    A term that others replace then has a huge variance and is the first to be eliminated.
    """
    try:
        factor: tuple[Array, bool] = cho_factor(gram, lower=True)
    except LinAlgError:
        shade = np.diag(_SHADE * gram.diagonal())
        factor = cho_factor(gram + shade, lower=True)
    return factor
