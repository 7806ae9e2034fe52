"""The law with the least held-out error, by five folds: a sparse law, or a mixture of shrunk ones.

The candidates are those of :mod:`.shrinkage` at every degree, in orthonormal products and for low
degrees in plain powers too, each at its best strength, and the law that the sparse solver finds. Their
predictions of rows left out are mixed with weights that are not negative and add up to one, so that
the error is least; a mixture of polynomials is a polynomial. A sparse law that is as good alone is
returned alone, with its standard errors. Shrunk coefficients have none.

Equal rows share a fold, and the order of the rows has no say. A weight counts repetitions, so a row of
weight two and the same row twice must be judged alike: rows are put into a canonical order, equal ones
made one, and these are dealt out at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from exactformer.learning.laws.dense.solvers import Degree, Solved, data_ranges, solve_sparse
from exactformer.learning.laws.dictionary.change_of_basis import contract, expand
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.dictionary.terms import (
    Exponents,
    Terms,
    check_size,
    count_terms,
    products,
)
from exactformer.learning.laws.held_out.shrinkage import KINDS, STRENGTHS, Centred, features
from exactformer.learning.laws.law import DataRange, Law, SparseLaw
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.selection import Rules

FOLDS = 5
_MOST_TERMS = 500
_HIGHEST = 8
# Terms may be more than rows, for shrinkage chooses among them, but not many times more.
_TERMS_PER_ROW = 2
# Degrees that are also tried in plain powers, whose lasso prefers other terms.
_PLAIN = (1, 2)
# A sparse law is returned alone if its held-out error is at most this many times the mixture's.
_AS_GOOD = 1.01
# The weight of the equation that all weights add up to one.
_TOGETHER = 100.0
# A higher degree must lower the held-out error by this share to be worth the next.
_GAIN = 0.002


@dataclass(frozen=True)
class _Family:
    """The shrunk candidates of one degree in one basis, with their predictions of rows left out.

    ``held_out`` has shape (kinds, strengths, N), ``errors`` (kinds, strengths).
    """

    terms: Terms
    scale: Array | None
    sample: Sample
    output: int
    held_out: Array
    errors: Array

    @property
    def least(self) -> float:
        return float(self.errors.min())

    def name(self, kind: int) -> str:
        basis = "" if self.scale is None else " in powers"
        return f"{KINDS[kind]} of degree {self.terms.degree}{basis}"

    @cached_property
    def on_all_rows(self) -> list[tuple[Array, Array]]:
        """For each kind the coefficients of φ (p, strengths) and the constants, fitted to all rows."""
        phi = features(self.terms, self.sample.X, self.scale)
        sums = Centred.of(phi, self.sample.Y[:, self.output], self.sample.weight)
        return sums.candidates(*sums.strengths())

    def coordinates(self, kind: int, strength: int) -> dict[Exponents, float]:
        """Return the coefficients of the orthonormal products of one candidate, fitted to all rows."""
        own, constant = self.on_all_rows[kind]
        values = [float(constant[strength]), *own[:, strength].tolist()]
        found = {a: c for a, c in zip(self.terms.all_exponents(), values, strict=True) if c}
        if self.scale is None:
            return found
        units = [Fraction(float(s)) for s in self.scale]
        powers = {
            a: Fraction(c) / prod((u**k for u, k in zip(units, a, strict=True)), start=Fraction(1))
            for a, c in found.items()
        }
        return {a: float(c) for a, c in contract(powers, self.terms.columns).items()}


def solve_prediction(sample: Sample, degree: Degree, rules: Rules, limit: int, seed: int) -> Solved:
    """Return for every output the law with the least held-out error."""
    fold = fold_of_each_row(sample, seed)
    sparse = solve_sparse(sample, degree, rules, limit)
    left_out = _sparse_predictions(sample, sparse.degree, rules, limit, fold)
    laws: list[Law] = []
    paths, degrees, words = [], [], []
    for output, data_range in enumerate(data_ranges(sample)):
        law, path, highest = sparse.laws[output], sparse.paths[output], sparse.degree
        assert isinstance(law, SparseLaw)
        families = _families(sample, output, fold, degree, limit)
        mixture = _mix(families, left_out[:, output], sample, output)
        alone = _mean_square(sample, output, left_out[:, output])
        best = "the sparse law"
        if mixture is not None and alone > _AS_GOOD * mixture.error:
            law, path = _refit(mixture, law, sample, output, data_range)
            highest = max(family.terms.degree for family in families)
            best = str(mixture)
        laws.append(law)
        paths.append(path)
        degrees.append(highest)
        words.append(f"{best} has the least held-out error")
    nothing: list[list[Exponents]] = [[] for _ in laws]
    stopped = "; ".join(dict.fromkeys(words))
    return Solved(laws, max(degrees), nothing, stopped, paths, nothing, nothing)


def fold_of_each_row(sample: Sample, seed: int) -> NDArray[np.int64]:
    """Return a fold from 0 to ``FOLDS`` − 1 for each row."""
    whole = np.column_stack([sample.X, sample.Y])
    _, place = np.unique(whole, axis=0, return_inverse=True)
    count = int(place.max()) + 1
    dealt = np.random.default_rng(seed).permutation(count) % min(FOLDS, count)
    return np.asarray(dealt[place.ravel()], dtype=np.int64)


def _splits(fold: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield masks of the rows inside and outside, for each fold that leaves any inside."""
    for k in range(int(fold.max()) + 1):
        if (fold != k).any():
            yield fold != k, fold == k


@dataclass(frozen=True)
class _Part:
    """One candidate of a mixture, the sparse law if it has no family, and its weight."""

    family: _Family | None
    kind: int
    strength: int
    weight: float

    def __str__(self) -> str:
        name = "the sparse law" if self.family is None else self.family.name(self.kind)
        return f"{name} ({self.weight:.0%})"


@dataclass(frozen=True)
class _Mixture:
    """Candidates with positive weights, the held-out error they have together, and all families."""

    parts: list[_Part]
    error: float
    families: list[_Family]

    def __str__(self) -> str:
        shown = sorted(self.parts, key=lambda part: -part.weight)[:3]
        more = len(self.parts) - len(shown)
        return "a mixture of " + ", ".join(map(str, shown)) + (f" and {more} more" if more else "")


def _mix(families: list[_Family], sparse: Array, sample: Sample, output: int) -> _Mixture | None:
    """Weigh the best candidate of each kind and family, and the sparse law, for the least error."""
    if not families:
        return None
    candidates: list[tuple[_Family | None, int, int]] = []
    columns = []
    if np.isfinite(sparse).all():
        candidates, columns = [(None, 0, 0)], [sparse]
    for family in families:
        for kind, errors in enumerate(family.errors):
            strength = int(np.argmin(errors))
            if np.isfinite(errors[strength]):
                candidates.append((family, kind, strength))
                columns.append(family.held_out[kind, strength])
    y, root = sample.Y[:, output], np.sqrt(sample.weight)
    predictions = np.column_stack(columns)
    mean = np.average(y, weights=sample.weight)
    size = float(np.linalg.norm(root * (y - mean))) or 1.0
    system = np.vstack(
        [(predictions - mean) * root[:, None] / size, np.full(len(columns), _TOGETHER)]
    )
    found, _ = nnls(system, np.append(root * (y - mean) / size, _TOGETHER))
    weights = found / found.sum()
    error = _mean_square(sample, output, predictions @ weights)
    pairs = zip(candidates, weights.tolist(), strict=True)
    return _Mixture([_Part(*one, weight) for one, weight in pairs if weight > 0], error, families)


def _mean_square(sample: Sample, output: int, predicted: Array) -> float:
    left = sample.Y[:, output] - predicted
    return float(sample.weight @ left**2) / sample.size if np.isfinite(left).all() else np.inf


def _sparse_predictions(
    sample: Sample, degree: Degree, rules: Rules, limit: int, fold: NDArray[np.int64]
) -> Array:
    """Return the sparse solver's predictions of rows left out (N, outputs); NaN where none is."""
    predicted = np.full(sample.Y.shape, np.nan)
    for inside, outside in _splits(fold):
        solved = solve_sparse(sample.part(inside), degree, rules, limit)
        for output, law in enumerate(solved.laws):
            assert isinstance(law, SparseLaw)
            predicted[outside, output] = law.inner_values(sample.X[outside])
    return predicted


def _families(
    sample: Sample, output: int, fold: NDArray[np.int64], degree: Degree, limit: int
) -> list[_Family]:
    """Return the shrunk candidates, degree by degree, while a higher one still helps."""
    columns = sample.X.shape[1]
    most = min(_MOST_TERMS, max(columns + 1, _TERMS_PER_ROW * len(sample.X)))
    degrees = range(1, _HIGHEST + 1) if degree == "auto" else [degree]
    tried: list[_Family] = []
    reach = np.maximum(np.abs(sample.X).max(axis=0, initial=0.0), np.finfo(float).tiny)
    for q in degrees if columns else []:
        count = count_terms(columns, q)
        if degree == "auto" and q > 1 and count > most:
            break
        check_size(count, 8 * count * (len(sample.X) + 4 * count), limit, "shrinkage")
        before = min((family.least for family in tried), default=np.inf)
        terms = Design.of(sample, q).terms
        if len(terms) < 2:
            break
        here = [_judged(terms, None, sample, output, fold)]
        if q in _PLAIN:
            here.append(_judged(terms, reach, sample, output, fold))
        tried += here
        if q > 2 and min(family.least for family in here) > (1 - _GAIN) * before:
            break
    return [family for family in tried if np.isfinite(family.least)]


def _judged(
    terms: Terms, scale: Array | None, sample: Sample, output: int, fold: NDArray[np.int64]
) -> _Family:
    """Predict every row from the other folds, by every kind and strength."""
    phi, y, weight = features(terms, sample.X, scale), sample.Y[:, output], sample.weight
    strengths = Centred.of(phi, y, weight).strengths()
    held_out = np.full((len(KINDS), STRENGTHS, len(y)), np.nan)
    for inside, outside in _splits(fold):
        sums = Centred.of(phi[inside], y[inside], weight[inside])
        for kind, (own, constant) in enumerate(sums.candidates(*strengths)):
            held_out[kind][:, outside] = (phi[outside] @ own + constant).T
    errors = (y - held_out) ** 2 @ weight / sample.size
    errors = np.where(np.isfinite(errors), errors, np.inf)
    return _Family(terms, scale, sample, output, held_out, errors)


def _refit(
    mixture: _Mixture, sparse: SparseLaw, sample: Sample, output: int, data_range: DataRange
) -> tuple[SparseLaw, list[Step]]:
    """Fit every part to all rows and add them up; return the law and the path of the best lasso."""
    y = sample.Y[:, output]
    highest = max(mixture.families, key=lambda family: family.terms.degree).terms
    if any(p.family is None for p in mixture.parts) and len(sparse.columns.a) > highest.degree:
        columns = sparse.columns
    else:
        columns = highest.columns
    total: dict[Exponents, float] = {}
    for member in mixture.parts:
        coordinates = dict(zip(sparse.basis, sparse.coordinates.tolist(), strict=True))
        if member.family is not None:
            coordinates = member.family.coordinates(member.kind, member.strength)
        for alpha, c in coordinates.items():
            total[alpha] = total.get(alpha, 0.0) + member.weight * c
    total = {alpha: c for alpha, c in total.items() if c or not any(alpha)}
    powers = expand({a: Fraction(c) for a, c in total.items()}, columns)
    written = data_range.written({a: c for a, c in powers.items() if c or not any(a)})
    inner = np.array(list(total.values()))
    fitted = products(list(total), columns, sample.X) @ inner
    freedom = max(sample.size - len(total), 1.0)
    variance = float(sample.weight @ (y - fitted) ** 2) / freedom
    errors = np.full(len(written), np.nan)
    law = SparseLaw(data_range, freedom, variance, written, errors, columns, list(total), inner)
    steps = _steps(mixture, law, sample, output)
    return law, [step.embedded(data_range.embed) for step in steps]


def _steps(mixture: _Mixture, law: SparseLaw, sample: Sample, output: int) -> list[Step]:
    """Return the models of the best lasso's strengths, few terms first, and the law among them."""
    y, lasso = sample.Y[:, output], KINDS.index("lasso")
    family = min(mixture.families, key=lambda f: float(f.errors[lasso].min()))
    mean = np.average(y, weights=sample.weight)
    spread = float(sample.weight @ (y - mean) ** 2)
    if not spread > 0:
        return []
    phi = features(family.terms, sample.X, family.scale)
    own, constant = family.on_all_rows[lasso]
    exponents = family.terms.all_exponents()
    steps: list[Step] = []
    for i in range(own.shape[1]):
        kept = [exponents[0], *(exponents[j + 1] for j in np.flatnonzero(own[:, i]))]
        square = float(sample.weight @ (y - phi @ own[:, i] - constant[i]) ** 2)
        held_out = 1 - float(family.errors[lasso, i]) * sample.size / spread
        if not steps or steps[-1].exponents != kept:
            steps.append(Step(kept, 1 - square / spread, held_out, False))
    square = law.variance * law.freedom
    held_out = 1 - mixture.error * sample.size / spread
    steps.append(Step(list(law.coefficients), 1 - square / spread, held_out, True))
    return sorted(steps, key=lambda step: len(step.exponents))
