"""The solvers that need no training: a sample in, one law for each output out."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from exactformer.learning.laws.dictionary.row_sums import residuals, square_norms
from exactformer.learning.laws.dictionary.terms import (
    Exponents,
    Terms,
    build_terms,
    check_size,
    count_terms,
)
from exactformer.learning.laws.law import DataRange, DenseLaw, Law, RidgeLaw, SparseLaw
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.selection import select
from exactformer.learning.threads import one_blas_thread

Degree = int | Literal["auto"]

_HIGHEST = 8
_MOST_TERMS = 4000
# What a pass keeps for each term: a block of features and the products with the terms found.
_BYTES_A_TERM = 8 * 128


@dataclass(frozen=True)
class Solved:
    """Laws, one for each output; the degree of the dictionary; terms the data cannot distinguish."""

    laws: list[Law]
    degree: int
    aliases: list[list[Exponents]] = field(default_factory=list)


def data_ranges(sample: Sample, dimension: int) -> list[DataRange]:
    """Return the range of the columns with that of each output."""
    reach = np.zeros(dimension)
    reach[sample.used] = np.abs(sample.X).max(axis=0, initial=0.0)
    sizes = np.abs(sample.Y).max(axis=0)
    return [DataRange(dimension, sample.used, reach, float(size)) for size in sizes]


def solve_sparse(
    sample: Sample, dimension: int, degree: Degree, significance: float, limit: int
) -> Solved:
    """Find the few terms that are there, output by output."""
    columns = sample.X.shape[1]
    highest = _highest(columns, sample.size) if degree == "auto" else degree
    count = count_terms(columns, highest)
    check_size(count, count * _BYTES_A_TERM, limit, "a pass over the data")
    laws: list[Law] = []
    aliases = []
    with one_blas_thread():
        terms = _dictionary(sample, highest)
        norms = square_norms(terms, sample)
        for output, data_range in enumerate(data_ranges(sample, dimension)):
            found = select(terms, norms, sample, output, significance)
            laws.append(SparseLaw.of(found, terms.columns, data_range))
            aliases.append([data_range.embed(alpha) for alpha in found.aliases])
    return Solved(laws, highest, aliases)


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
        terms, ranges = _dictionary(sample, highest), data_ranges(sample, dimension)
        if not formed:
            found = conjugate_gradients(terms, sample)
            return Solved([*DenseLaw.each(found, terms, ranges)], highest)
        gram, right = normal_equations(terms, sample)
        if degree == "auto":
            highest = choose_degree(terms, sample, gram, right)
            lower = np.flatnonzero(terms.total <= highest)
            gram, right = np.asfortranarray(gram[np.ix_(lower, lower)]), right[lower]
            terms = build_terms(terms.columns, highest)
        if directions is not None:
            return Solved(_along(directions, terms, sample, gram, right, ranges), highest)
        return Solved([*DenseLaw.each(solve(terms, sample, gram, right), terms, ranges)], highest)


def best_degree(sample: Sample, degree: Degree) -> int:
    """Return a degree as given, or for "auto" the one with the least leave-one-out error."""
    if degree != "auto":
        return degree
    terms = _dictionary(sample, _highest(sample.X.shape[1], sample.size / 2))
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


def _dictionary(sample: Sample, degree: int) -> Terms:
    return build_terms(fit_columns(sample.X, sample.weight, degree), degree)


def _highest(columns: int, size: float) -> int:
    """Return the largest degree with no more terms than observations, within reason."""
    most = min(_MOST_TERMS, size)
    able = [q for q in range(_HIGHEST + 1) if count_terms(columns, q) <= most]
    return max(able, default=0)
