"""The law with the least held-out error: every degree, kind and strength is judged by five folds.

The candidates of a degree are those of :mod:`.shrinkage`; besides them there is the law that the
sparse solver finds, for where a law has few terms of high degree nothing shrunk is as good. Shrunk
coefficients have no standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws.dense.solvers import (
    Degree,
    Solved,
    data_ranges,
    dictionary,
    solve_sparse,
)
from exactformer.learning.laws.dictionary.change_of_basis import expand
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import Terms, check_size, count_terms
from exactformer.learning.laws.held_out.folds import fold_of_each_row, part
from exactformer.learning.laws.held_out.shrinkage import KINDS, Centred, features
from exactformer.learning.laws.law import DataRange, Law, SparseLaw
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.selection import Rules
from exactformer.learning.threads import one_blas_thread

_MOST_TERMS = 500
_HIGHEST = 8
# Terms may be more than rows, for shrinkage chooses among them, but not many times more.
_TERMS_PER_ROW = 2
# A higher degree must lower the held-out error by this share to be worth the next.
_GAIN = 0.002


@dataclass(frozen=True)
class _Degree:
    """The shrunk candidates of one degree: held-out errors (kinds, strengths) of one output."""

    terms: Terms
    errors: Array

    @property
    def least(self) -> float:
        return float(np.nanmin(self.errors))


def solve_prediction(
    sample: Sample, dimension: int, degree: Degree, rules: Rules, limit: int, seed: int
) -> Solved:
    """Return for every output the law with the least held-out error."""
    fold = fold_of_each_row(sample, seed)
    ranges = data_ranges(sample, dimension)
    sparse = solve_sparse(sample, dimension, degree, rules, limit)
    kept_out = _sparse_errors(sample, dimension, sparse.degree, rules, limit, fold)
    laws: list[Law] = []
    paths, degrees, words = [], [], []
    for output, data_range in enumerate(ranges):
        tried = _shrunk(sample, output, fold, degree, limit)
        best = min(tried, key=lambda candidate: candidate.least, default=None)
        if best is None or kept_out[output] <= best.least:
            laws.append(sparse.laws[output])
            paths.append(sparse.paths[output])
            degrees.append(sparse.degree)
            words.append("the sparse law has the least held-out error")
            continue
        law, steps, word = _refit(best, sample, output, data_range)
        laws.append(law)
        paths.append(steps)
        degrees.append(best.terms.degree)
        words.append(f"{word} has the least held-out error")
    nothing: list[list[tuple[int, ...]]] = [[] for _ in laws]
    stopped = "; ".join(dict.fromkeys(words))
    return Solved(laws, max(degrees), nothing, stopped, paths, nothing, nothing)


def _sparse_errors(
    sample: Sample,
    dimension: int,
    degree: Degree,
    rules: Rules,
    limit: int,
    fold: NDArray[np.int64],
) -> Array:
    """Return the held-out mean square (outputs,) of the sparse solver."""
    total = np.zeros(sample.Y.shape[1])
    for k in range(int(fold.max()) + 1):
        inside, outside = part(sample, fold != k), part(sample, fold == k)
        if not len(inside.X):
            return np.full(len(total), np.inf)
        solved = solve_sparse(inside, dimension, degree, rules, limit)
        for output, law in enumerate(solved.laws):
            assert isinstance(law, SparseLaw)
            left = outside.Y[:, output] - law.inner_values(outside.X)
            total[output] += outside.weight @ left**2
    return np.asarray(total / sample.size)


def _shrunk(
    sample: Sample, output: int, fold: NDArray[np.int64], degree: Degree, limit: int
) -> list[_Degree]:
    """Return the shrunk candidates, degree by degree, while a higher one still helps."""
    columns = sample.X.shape[1]
    most = min(_MOST_TERMS, max(columns + 1, _TERMS_PER_ROW * len(sample.X)))
    degrees = range(1, _HIGHEST + 1) if degree == "auto" else [degree]
    tried: list[_Degree] = []
    for q in degrees if columns else []:
        count = count_terms(columns, q)
        if degree == "auto" and q > 1 and count > most:
            break
        check_size(count, 8 * count * (len(sample.X) + 4 * count), limit, "shrinkage")
        with one_blas_thread():
            terms = dictionary(sample, q)
            if len(terms) < 2:
                break
            tried.append(_Degree(terms, _errors(terms, sample, output, fold)))
        if len(tried) > 2 and tried[-1].least > (1 - _GAIN) * min(t.least for t in tried[:-1]):
            break
    return tried


def _errors(terms: Terms, sample: Sample, output: int, fold: NDArray[np.int64]) -> Array:
    """Return the held-out mean squares (kinds, strengths)."""
    phi, y, weight = features(terms, sample), sample.Y[:, output], sample.weight
    strengths = Centred.of(phi, y, weight).strengths()
    total: Array = np.zeros((len(KINDS), len(strengths["ridge"])))
    for k in range(int(fold.max()) + 1):
        inside, outside = fold != k, fold == k
        if not inside.any():
            return np.full_like(total, np.inf)
        sums = Centred.of(phi[inside], y[inside], weight[inside])
        for i, scaled in enumerate(map(sums.coefficients(strengths).get, KINDS)):
            assert scaled is not None
            own, constant = sums.on_features(scaled)
            left = y[outside, None] - phi[outside] @ own - constant
            total[i] += weight[outside] @ left**2
    return np.asarray(np.where(np.isfinite(total), total / sample.size, np.inf))


def _refit(
    best: _Degree, sample: Sample, output: int, data_range: DataRange
) -> tuple[SparseLaw, list[Step], str]:
    """Fit the best kind and strength to all rows; return the law, its path and what it is called."""
    kind, strength = np.unravel_index(int(np.nanargmin(best.errors)), best.errors.shape)
    phi, y = features(best.terms, sample), sample.Y[:, output]
    sums = Centred.of(phi, y, sample.weight)
    scaled = sums.coefficients(sums.strengths())[KINDS[kind]]
    own, constant = sums.on_features(scaled)
    spread = float(sample.weight @ (y - sums.y_mean) ** 2)
    exponents = best.terms.all_exponents()
    steps: list[Step] = []
    for i in range(own.shape[1]) if spread > 0 else ():
        kept = [exponents[j + 1] for j in np.flatnonzero(own[:, i])]
        square = float(sample.weight @ (y - phi @ own[:, i] - constant[i]) ** 2)
        held_out = 1 - float(best.errors[kind, i]) * sample.size / spread
        here = Step([exponents[0], *kept], 1 - square / spread, held_out, i == strength)
        if np.isfinite(square) and (not steps or here.chosen or _differ(steps[-1], here)):
            steps.append(here)
    coordinates = np.append(constant[strength], own[:, strength])
    terms = {exponents[j]: Fraction(c) for j, c in enumerate(coordinates.tolist()) if c}
    left = y - phi @ own[:, strength] - constant[strength]
    freedom = max(sample.size - len(terms), 1.0)
    variance = float(sample.weight @ left**2) / freedom
    written = data_range.written(
        {a: c for a, c in expand(terms, best.terms.columns).items() if c or not any(a)}
    )
    law = SparseLaw(
        data_range,
        freedom,
        variance,
        written,
        np.full(len(written), np.nan),
        best.terms.columns,
        list(terms),
        np.array([float(c) for c in terms.values()]),
    )
    return law, steps, f"{KINDS[kind]} of degree {best.terms.degree}"


def _differ(a: Step, b: Step) -> bool:
    return a.exponents != b.exponents or abs(a.held_out_r2 - b.held_out_r2) > 0.01
