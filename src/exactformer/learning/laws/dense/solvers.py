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
from exactformer.learning.laws.dictionary.columns import Array, fit_columns
from exactformer.learning.laws.dictionary.row_sums import inner_products, residuals, square_norms
from exactformer.learning.laws.dictionary.terms import (
    Exponents,
    Terms,
    build_terms,
    check_size,
    count_terms,
)
from exactformer.learning.laws.law import DataRange, DenseLaw, Law, RidgeLaw, SparseLaw
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.forward_search import threshold
from exactformer.learning.laws.sparse.selection import Rules, Selection, select
from exactformer.learning.threads import one_blas_thread

Degree = int | Literal["auto"]

_HIGHEST = 8
_MOST_TERMS = 4000
# "auto" of the sparse solver goes on from there in steps, while they pay and the law stays readable.
_STEP = 4
_LIMIT = 100
_LARGEST_LAW = 150
# A law of lower degree is as good if its excess is below so many of its standard errors, or rounding.
_SURE = 2.0
_EXACT = 1e-9
# What a pass keeps for each term: a block of features and the products with the terms found.
_BYTES_A_TERM = 8 * 128


@dataclass(frozen=True)
class Solved:
    """Laws, one for each output; the degree of the dictionary; terms the data cannot distinguish.

    ``stopped`` is the reason why an automatic degree is not higher. ``paths`` and ``disputed`` (kept by
    most rows against large errors) and ``irrelevant`` terms are those of the sparse solver, by output.
    """

    laws: list[Law]
    degree: int
    aliases: list[list[Exponents]] = field(default_factory=list)
    stopped: str = ""
    paths: list[list[Step]] = field(default_factory=list)
    disputed: list[list[Exponents]] = field(default_factory=list)
    irrelevant: list[list[Exponents]] = field(default_factory=list)


def data_ranges(sample: Sample, dimension: int) -> list[DataRange]:
    """Return the range of the columns with that of each output."""
    reach = np.zeros(dimension)
    reach[sample.used] = np.abs(sample.X).max(axis=0, initial=0.0)
    sizes = np.abs(sample.Y).max(axis=0)
    return [DataRange(dimension, sample.used, reach, float(size)) for size in sizes]


def solve_sparse(
    sample: Sample, dimension: int, degree: Degree, rules: Rules, limit: int
) -> Solved:
    """Find the few terms that are there, output by output."""
    columns = sample.X.shape[1]
    highest = _highest(columns, sample.size) if degree == "auto" else degree
    count = count_terms(columns, highest)
    check_size(count, count * _BYTES_A_TERM, limit, "a pass over the data")
    ranges = data_ranges(sample, dimension)
    with one_blas_thread():
        terms, found = _selected(sample, highest, rules)
        laws = _sparse_laws(found, terms, ranges)
        stopped = ""
        while degree == "auto" and not stopped:
            following = _following(highest, columns, sample.size, limit)
            wider = dictionary(sample, following) if following > highest else terms
            stopped = _enough(wider, highest, laws, sample, rules)
            if stopped:
                break
            more, better = _selected(sample, following, rules)
            later = _sparse_laws(better, more, ranges)
            if not any(b.variance < a.variance for a, b in zip(laws, later, strict=True)):
                stopped = f"degrees {highest + 1} to {following} explain no more"
                break
            terms, found, laws, highest = more, better, later, following
        if degree == "auto":
            laws, found = _lower(laws, found, sample, rules, ranges)
    lists = [
        [[r.embed(a) for a in part] for part in (s.aliases, s.disputed, s.irrelevant)]
        for r, s in zip(ranges, found, strict=True)
    ]
    aliases, disputed, irrelevant = map(list, zip(*lists, strict=True))
    paths = [
        [step.embedded(r.embed) for step in s.path] for r, s in zip(ranges, found, strict=True)
    ]
    return Solved([*laws], highest, aliases, stopped, paths, disputed, irrelevant)


def _lower(
    laws: list[SparseLaw],
    found: list[Selection],
    sample: Sample,
    rules: Rules,
    ranges: list[DataRange],
) -> tuple[list[SparseLaw], list[Selection]]:
    """Replace laws by those of a lower degree that have no more terms and explain as much.

    Where columns depend on each other, as on a trajectory, high powers stand in for low ones.
    """
    laws, found = list(laws), list(found)
    own = [max((sum(a) for a in law.coefficients), default=0) for law in laws]
    for degree in range(1, max(own)):
        terms, lower = _selected(sample, degree, rules)
        for output, law in enumerate(_sparse_laws(lower, terms, ranges)):
            if degree < own[output] and _as_good(law, laws[output], sample, output):
                laws[output], found[output], own[output] = law, lower[output], degree
    return laws, found


def _as_good(simple: SparseLaw, law: SparseLaw, sample: Sample, output: int) -> bool:
    """Whether a law with no more terms has squared residuals that are not significantly larger."""
    if len(simple.coefficients) > len(law.coefficients):
        return False
    y = sample.Y[:, output]
    excess = (y - simple.inner_values(sample.X)) ** 2 - (y - law.inner_values(sample.X)) ** 2
    mean = float(sample.weight @ excess) / sample.size
    error = float(np.sqrt(sample.weight @ (excess - mean) ** 2)) / sample.size
    rounding = _EXACT**2 * float(sample.weight @ y**2) / sample.size
    return mean <= max(_SURE * error, rounding)


def _selected(sample: Sample, degree: int, rules: Rules) -> tuple[Terms, list[Selection]]:
    terms = dictionary(sample, degree)
    norms = square_norms(terms, sample)
    return terms, [select(terms, norms, sample, j, rules) for j in range(sample.Y.shape[1])]


def _sparse_laws(found: list[Selection], terms: Terms, ranges: list[DataRange]) -> list[SparseLaw]:
    pairs = zip(found, ranges, strict=True)
    return [SparseLaw.of(selection, terms.columns, r) for selection, r in pairs]


def _following(degree: int, columns: int, size: float, limit: int) -> int:
    """Return the next degree to look at: a step higher, as far as rows and memory allow."""
    most = min(_MOST_TERMS, size / 2, limit / _BYTES_A_TERM)
    able = [q for q in range(degree, degree + _STEP + 1) if count_terms(columns, q) <= most]
    return min(max(able, default=degree), _LIMIT)


def _enough(wider: Terms, degree: int, laws: list[SparseLaw], sample: Sample, rules: Rules) -> str:
    """Return why no higher degree is tried; nothing if one has a significant term to add."""
    if not (wider.total > degree).any():
        if degree >= _LIMIT:
            return f"degree {_LIMIT} is the highest tried"
        return f"the {sample.size:,.0f} rows do not carry the terms of degree {degree + 1}"
    if max(len(law.coefficients) for law in laws) > _LARGEST_LAW:
        return f"the law has more than {_LARGEST_LAW} terms already"
    left = sample.Y - np.column_stack([law.inner_values(sample.X) for law in laws])
    inner = inner_products(wider, sample, left)
    norms = np.sqrt(np.maximum(square_norms(wider, sample), np.finfo(float).tiny))
    new = wider.total > degree
    level = rules.significance / len(wider)
    for law, y, r, products in zip(laws, sample.Y.T, left.T, inner.T, strict=True):
        if law.freedom <= 1:
            continue
        bound, square = threshold(sample, y, level), float(sample.weight @ r**2)
        statistic = bound.statistic(np.abs(products[new]) / norms[new], square, law.freedom)
        if statistic.max() >= bound.critical_value(law.freedom):
            return ""
    return f"no term of degree {degree + 1} to {wider.degree} is significant"


def solve_least_squares(
    sample: Sample, dimension: int, degree: Degree, directions: Array | None, limit: int
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
        terms, ranges = dictionary(sample, highest), data_ranges(sample, dimension)
        if not formed:
            found = conjugate_gradients(terms, sample)
            return Solved([*DenseLaw.each(found, terms, ranges)], highest)
        gram, right = normal_equations(terms, sample)
        if degree == "auto":
            highest = choose_degree(terms, sample, gram, right)
            lower = np.flatnonzero(terms.total <= highest)
            gram, right = np.asfortranarray(gram[np.ix_(lower, lower)]), right[lower]
            terms = build_terms(terms.columns, highest, sample.apart)
        if directions is not None:
            return Solved(_along(directions, terms, sample, gram, right, ranges), highest)
        return Solved([*DenseLaw.each(solve(terms, sample, gram, right), terms, ranges)], highest)


def best_degree(sample: Sample, degree: Degree) -> int:
    """Return a degree as given, or for "auto" the one with the least leave-one-out error."""
    if degree != "auto":
        return degree
    terms = dictionary(sample, _highest(sample.X.shape[1], sample.size / 2))
    with one_blas_thread(len(terms)):
        return max(1, choose_degree(terms, sample, *normal_equations(terms, sample)))


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
    for output, (data_range, solution) in enumerate(zip(ranges, solutions, strict=True)):
        left = residuals(terms, sample, np.tile(solution.coordinates[:, None], sample.Y.shape[1]))
        freedom = sample.size - min(len(terms), directions.shape[0] * terms.degree + 1)
        square = float(sample.weight @ left[:, output] ** 2)
        variance = square / freedom if freedom > 0 else float("nan")
        laws.append(RidgeLaw(data_range, freedom, variance, directions, solution.beta, solution.b))
    return laws


def dictionary(sample: Sample, degree: int) -> Terms:
    """Return the dictionary of a degree for the columns of a sample."""
    columns = fit_columns(sample.X, sample.weight, degree)
    if sample.highest is not None:
        columns = replace(columns, degree=np.minimum(columns.degree, sample.highest))
    return build_terms(columns, degree, sample.apart)


def _highest(columns: int, size: float) -> int:
    """Return the largest degree with no more terms than observations, within reason."""
    most = min(_MOST_TERMS, size)
    able = [q for q in range(_HIGHEST + 1) if count_terms(columns, q) <= most]
    return max(able, default=0)
