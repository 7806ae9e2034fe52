"""The solvers that need no training: a sample in, one law for each output out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from exactformer.errors import InputError
from exactformer.learning.laws.dense.degree import choose_degree
from exactformer.learning.laws.dense.directions import solve_directions
from exactformer.learning.laws.dense.least_squares import (
    conjugate_gradients,
    gram_bytes,
    normal_equations,
    solve,
)
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import Design, residuals
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, check_size, count_terms
from exactformer.learning.laws.law import DataRange, DenseLaw, Law, RidgeLaw, SparseLaw
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.forward_search import Search, fit_few, threshold_of
from exactformer.learning.laws.sparse.selection import Rules, Selection, select
from exactformer.learning.threads import one_blas_thread

Degree = int | Literal["auto"]

HIGHEST = 8
_MOST_TERMS = 4000
# "auto" of the sparse solver goes on from there in steps, while they pay and the law stays readable.
_STEP = 4
HIGHEST_TRIED = 100
_LARGEST_LAW = 150
# Variances that differ by less than this share are those of the same law.
_ROUNDING = 1e-9
# A law of lower degree is as good if its excess is below so many of its standard errors, or rounding.
_SURE = 2.0
_EXACT = 1e-9
# Least squares on up to so many terms is quicker than a search. The grid and the margin of its bound.
_FEW_TERMS, _GRID, _SURELY = 60, 101, 1.01 * _SURE
# What a pass keeps for each term: a block of features and the products with the terms found.
_BYTES_A_TERM = 8 * 128


@dataclass(frozen=True)
class Solved:
    """Laws, one for each output; the degree of the dictionary; terms the data cannot distinguish.

    ``stopped`` is the reason why an automatic degree is not higher. ``paths`` and ``disputed`` (kept by
    most rows against large errors) and ``irrelevant`` terms are those of the sparse solver, by output.
    ``design`` has the features of all rows, where they are in memory.
    """

    laws: list[Law]
    degree: int
    aliases: list[list[Exponents]] = field(default_factory=list)
    stopped: str = ""
    paths: list[list[Step]] = field(default_factory=list)
    disputed: list[list[Exponents]] = field(default_factory=list)
    irrelevant: list[list[Exponents]] = field(default_factory=list)
    design: Design | None = None


def data_ranges(sample: Sample) -> list[DataRange]:
    """Return the range of the columns with that of each output."""
    reach, sizes = np.abs(sample.X).max(axis=0, initial=0.0), np.abs(sample.Y).max(axis=0)
    return DataRange.each(sample.dimension, sample.used, reach, sizes)


@dataclass(frozen=True)
class Residuals:
    """What laws leave of the outputs: ⟨φ_j, r⟩ (p, outputs), ‖φ_j‖² (p,), ‖r‖² and ‖y‖² (outputs,)."""

    inner: Array
    norms: Array
    squares: Array
    totals: Array


@dataclass
class Source:
    """Rows to learn from: what the search for terms and degree needs of them.

    ``ranges`` are those of the columns with each output. The designs of the highest degree so far and
    of the last are kept.
    """

    ranges: list[DataRange]
    sample: Sample
    highest: Design | None = None
    last: Design | None = None

    @classmethod
    def of(cls, sample: Sample) -> Source:
        """Return a sample as a source."""
        return cls(data_ranges(sample), sample)

    @property
    def size(self) -> float:
        """The number of observations."""
        return self.sample.size

    @property
    def columns(self) -> int:
        """The number of columns in use."""
        return len(self.ranges[0].used)

    def dictionary(self, degree: int) -> Terms:
        """Return the dictionary of a degree."""
        return self._design(degree).terms

    def _design(self, degree: int) -> Design:
        if self.last is None or self.last.terms.degree != degree:
            if self.highest is None or self.highest.terms.degree < degree:
                self.highest = Design.of(self.sample, degree)
            self.last = self.highest.up_to(degree)
        return self.last

    def select(self, terms: Terms, rules: Rules) -> list[Selection]:
        """Find the terms of each output."""
        design, known, found = self._design(terms.degree), dict[int, Array](), []
        sample, weight = self.sample, self.sample.weight
        for y in map(np.ascontiguousarray, sample.Y.T):
            square, spread = float(weight @ y**2), np.sqrt(weight @ (y - sample.mean(y)) ** 2)
            bound = threshold_of(rules.significance / len(terms), self.size, square)
            about = design.terms, design.norms, bound, square, float(spread)
            found.append(select(Search(*about, design, y, known=known), rules))
        return found

    def _left(self, law: SparseLaw, output: int) -> Array:
        """Return the residual of a law; every design has the same polynomials of the columns."""
        assert self.highest is not None
        return self.sample.Y[:, output] - law.coordinates @ self.highest.few(law.basis)

    def against(self, terms: Terms, laws: list[SparseLaw]) -> Residuals:
        """Compare all terms with what laws leave of each output."""
        Y, weight = self.sample.Y, self.sample.weight
        left = np.column_stack([self._left(law, output) for output, law in enumerate(laws)])
        design = self._design(terms.degree)
        squares = weight @ left**2, weight @ Y**2
        return Residuals(design.inner_products(left.T), design.norms, *squares)

    def excess(self, simple: SparseLaw, law: SparseLaw, output: int) -> tuple[float, float, float]:
        """Return mean and standard error of the excess of squares, and the mean of y²."""
        y, weight, size = self.sample.Y[:, output], self.sample.weight, self.size
        excess = self._left(simple, output) ** 2 - self._left(law, output) ** 2
        mean = float(weight @ excess) / size
        error = float(np.sqrt(weight @ (excess - mean) ** 2)) / size
        return mean, error, float(weight @ y**2) / size

    def too_far(self, terms: Terms, law: SparseLaw, output: int) -> bool:
        """Whether least squares on whichever of some terms is surely not as good as a law.

        With residuals a of some terms, a* of all and r of the law, and h the largest leverage,

            |a_i| ≤ |a*_i| + √(h t),        t = ‖a‖² − ‖a*‖² ≤ ‖y‖² − ‖a*‖².

        The excess e = a² − r² has Σ e = ‖a‖² − ‖r‖² and Σ e² ≤ max |e| (‖a‖² + ‖r‖²), so that its mean
        is above so many standard errors if Σ e / √(‖a‖² + ‖r‖²) is above so many max (|a|, |r|) at
        each t. Both grow with t: between neighbours of a grid the least is compared with the largest.
        """
        design, y, weight = self._design(terms.degree), self.sample.Y[:, output], self.sample.weight
        if design.features is None or len(terms) > _FEW_TERMS:
            return False
        fit, left = fit_few(design.features, weight, y), self._left(law, output)
        leverage = fit.largest_leverage(design.features, weight)
        whole, square = float(weight @ y**2), float(weight @ left**2)
        steps = np.linspace(0.0, max(whole - fit.square, 0.0), _GRID)
        excess = fit.square - square + steps
        largest = np.maximum(
            np.abs(fit.residual).max() + np.sqrt(leverage * steps), np.abs(left).max()
        )
        error = largest[1:] * np.sqrt(fit.square + square + steps[:-1])
        return bool(excess[0] > 2 * _EXACT * whole and (excess[:-1] > _SURELY * error).all())


def solve_sparse(sample: Sample, degree: Degree, rules: Rules, limit: int) -> Solved:
    """Find the few terms that are there, output by output."""
    source = Source.of(sample)
    return replace(find_laws(source, degree, rules, limit), design=source.highest)


def find_laws(source: Source, degree: Degree, rules: Rules, limit: int) -> Solved:
    """Find the few terms that are there, and for "auto" the degree up to which there are any."""
    columns, ranges = source.columns, source.ranges
    highest = _highest(columns, source.size) if degree == "auto" else degree
    count = count_terms(columns, highest)
    check_size(count, count * _BYTES_A_TERM, limit, "a pass over the data")
    terms = source.dictionary(highest)
    found = source.select(terms, rules)
    laws = _sparse_laws(found, terms, ranges)
    stopped = ""
    while degree == "auto" and not stopped:
        following = _following(highest, columns, source.size, limit)
        wider = source.dictionary(following) if following > highest else terms
        stopped = _enough(wider, highest, laws, source, rules)
        if stopped:
            break
        better = source.select(wider, rules)
        pairs = zip(found, better, strict=True)
        if not any(
            b.exponents != a.exponents and b.variance < (1 - _ROUNDING) * a.variance
            for a, b in pairs
        ):
            stopped = f"degrees {highest + 1} to {following} explain no more"
            break
        terms, found, highest = wider, better, following
        laws = _sparse_laws(found, terms, ranges)
    if degree == "auto":
        laws, found = _lower(laws, found, source, rules)
    lists = [
        [[r.embed(a) for a in part] for part in (s.aliases(), s.disputed, s.irrelevant)]
        for r, s in zip(ranges, found, strict=True)
    ]
    aliases, disputed, irrelevant = map(list, zip(*lists, strict=True))
    paths = [
        [step.embedded(r.embed) for step in s.path()] for r, s in zip(ranges, found, strict=True)
    ]
    return Solved([*laws], highest, aliases, stopped, paths, disputed, irrelevant)


def _lower(
    laws: list[SparseLaw], found: list[Selection], source: Source, rules: Rules
) -> tuple[list[SparseLaw], list[Selection]]:
    """Replace laws by those of a lower degree that have no more terms and explain as much.

    Where columns depend on each other, as on a trajectory, high powers stand in for low ones.
    """
    laws, found = list(laws), list(found)
    own = [max((sum(a) for a in law.coefficients), default=0) for law in laws]
    degree = 0
    while (degree := degree + 1) < max(own):
        terms = source.dictionary(degree)
        if all(source.too_far(terms, law, output) for output, law in enumerate(laws)):
            continue
        for output, lower in enumerate(source.select(terms, rules)):
            if degree < own[output] and len(lower.exponents) <= len(laws[output].coefficients):
                law = SparseLaw.of(lower, terms.columns, source.ranges[output])
                if _as_good(law, laws[output], source, output):
                    laws[output], found[output], own[output] = law, lower, degree
    return laws, found


def _as_good(simple: SparseLaw, law: SparseLaw, source: Source, output: int) -> bool:
    """Whether a law has squared residuals that are not significantly larger than another's."""
    mean, error, square = source.excess(simple, law, output)
    same = _ROUNDING * law.variance if law.freedom > 0 else 0.0
    return mean <= max(_SURE * error, _EXACT**2 * square, same)


def _sparse_laws(found: list[Selection], terms: Terms, ranges: list[DataRange]) -> list[SparseLaw]:
    pairs = zip(found, ranges, strict=True)
    return [SparseLaw.of(selection, terms.columns, r) for selection, r in pairs]


def _following(degree: int, columns: int, size: float, limit: int) -> int:
    """Return the next degree to look at: a step higher, as far as rows and memory allow."""
    most = min(_MOST_TERMS, size / 2, limit / _BYTES_A_TERM)
    able = [q for q in range(degree, degree + _STEP + 1) if count_terms(columns, q) <= most]
    return min(max(able, default=degree), HIGHEST_TRIED)


def _enough(wider: Terms, degree: int, laws: list[SparseLaw], source: Source, rules: Rules) -> str:
    """Return why no higher degree is tried; nothing if one has a significant term to add."""
    if not (wider.total > degree).any():
        if degree >= HIGHEST_TRIED:
            return f"degree {HIGHEST_TRIED} is the highest tried"
        return f"the {source.size:,.0f} rows do not carry the terms of degree {degree + 1}"
    if max(len(law.coefficients) for law in laws) > _LARGEST_LAW:
        return f"the law has more than {_LARGEST_LAW} terms already"
    left = source.against(wider, laws)
    norms = np.sqrt(np.maximum(left.norms, np.finfo(float).tiny))
    new = wider.total > degree
    level = rules.significance / len(wider)
    for output, law in enumerate(laws):
        if law.freedom <= 1:
            continue
        bound = threshold_of(level, source.size, float(left.totals[output]))
        gains = np.abs(left.inner[new, output]) / norms[new]
        statistic = bound.statistic(gains, float(left.squares[output]), law.freedom)
        if statistic.max() >= bound.critical_value(law.freedom):
            return ""
    return f"no term of degree {degree + 1} to {wider.degree} is significant"


def solve_least_squares(
    sample: Sample, degree: Degree, directions: Array | None, limit: int
) -> Solved:
    """Fit every term up to the degree, or every power along given directions."""
    columns = sample.X.shape[1]
    highest = _highest(columns, sample.size / 2) if degree == "auto" else degree
    count = count_terms(columns, highest)
    formed = gram_bytes(count) <= limit
    if directions is not None or degree == "auto":
        what = "the Gram matrix, which directions= and degree='auto' need"
        check_size(count, 2 * gram_bytes(count), limit, what)
    check_size(count, count * _BYTES_A_TERM, limit, "a pass over the data")
    with one_blas_thread(count):
        design, ranges = Design.of(sample, highest), data_ranges(sample)
        terms = design.terms
        if not formed:
            found = conjugate_gradients(terms, sample)
            return Solved([*DenseLaw.each(found, terms, ranges)], highest)
        gram, right = normal_equations(design)
        if degree == "auto":
            highest = choose_degree(design, gram, right)
            lower = np.flatnonzero(terms.total <= highest)
            gram, right = np.asfortranarray(gram[np.ix_(lower, lower)]), right[lower]
            terms = terms.up_to(highest)
        if directions is not None:
            return Solved(_along(directions, terms, sample, gram, right, ranges), highest)
        return Solved([*DenseLaw.each(solve(terms, sample, gram, right), terms, ranges)], highest)


def best_degree(sample: Sample, degree: Degree) -> int:
    """Return a degree as given, or for "auto" the one with the least leave-one-out error."""
    if degree != "auto":
        return degree
    design = Design.of(sample, _highest(sample.X.shape[1], sample.size / 2))
    with one_blas_thread(len(design.terms)):
        return max(1, choose_degree(design, *normal_equations(design)))


def _along(
    directions: Array,
    terms: Terms,
    sample: Sample,
    gram: Array,
    right: Array,
    ranges: list[DataRange],
) -> list[Law]:
    if terms.degree < 1:
        raise InputError("directions= needs a degree of at least 1")
    laws: list[Law] = []
    solutions = solve_directions(directions, terms, gram, right)
    left = residuals(terms, sample, np.column_stack([s.coordinates for s in solutions]))
    freedom = sample.size - min(len(terms), directions.shape[0] * terms.degree + 1)
    for data_range, solution, residual in zip(ranges, solutions, left.T, strict=True):
        square = float(sample.weight @ residual**2)
        variance = square / freedom if freedom > 0 else float("nan")
        laws.append(RidgeLaw(data_range, freedom, variance, directions, solution.beta, solution.b))
    return laws


def _highest(columns: int, size: float) -> int:
    """Return the largest degree with no more terms than observations, within reason."""
    most = min(_MOST_TERMS, size)
    able = [q for q in range(HIGHEST + 1) if count_terms(columns, q) <= most]
    return max(able, default=0)
