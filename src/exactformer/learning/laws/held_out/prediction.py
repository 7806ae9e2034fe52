"""The law with the least held-out error, by five folds: a sparse law, or a mixture of shrunk ones.

The candidates are those of :mod:`.shrinkage` at every degree, in orthonormal products and for low
degrees in plain powers too, each at its best strength, and the law that the sparse solver finds. Their
predictions of rows left out are mixed with weights that are not negative and add up to one, so that
the error is least; a mixture of polynomials is a polynomial. A sparse law that is as good alone is
returned alone, with its standard errors. Shrunk coefficients have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from exactformer.learning.laws.dense.solvers import (
    Degree,
    Solved,
    data_ranges,
    solve_sparse,
)
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
from exactformer.learning.laws.held_out.folds import fold_of_each_row, part
from exactformer.learning.laws.held_out.shrinkage import KINDS, Centred, features
from exactformer.learning.laws.law import DataRange, Law, SparseLaw
from exactformer.learning.laws.path import Step
from exactformer.learning.laws.sample import Sample
from exactformer.learning.laws.sparse.selection import Rules

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
    held_out: Array
    errors: Array

    @property
    def least(self) -> float:
        return float(self.errors.min())

    def name(self, kind: int) -> str:
        basis = "" if self.scale is None else " in powers"
        return f"{KINDS[kind]} of degree {self.terms.degree}{basis}"


def solve_prediction(
    sample: Sample, dimension: int, degree: Degree, rules: Rules, limit: int, seed: int
) -> Solved:
    """Return for every output the law with the least held-out error."""
    fold = fold_of_each_row(sample, seed)
    ranges = data_ranges(sample, dimension)
    sparse = solve_sparse(sample, dimension, degree, rules, limit)
    left_out = _sparse_predictions(sample, dimension, sparse.degree, rules, limit, fold)
    laws: list[Law] = []
    paths, degrees, words = [], [], []
    for output, data_range in enumerate(ranges):
        law = sparse.laws[output]
        assert isinstance(law, SparseLaw)
        families = _families(sample, output, fold, degree, limit)
        mixture = _mix(families, left_out[:, output], sample, output)
        alone = _mean_square(sample, output, left_out[:, output])
        if mixture is None or alone <= _AS_GOOD * mixture.error:
            laws.append(law)
            paths.append(sparse.paths[output])
            degrees.append(sparse.degree)
            words.append("the sparse law has the least held-out error")
            continue
        mixed, steps = _refit(mixture, law, sample, output, data_range)
        laws.append(mixed)
        paths.append(steps)
        degrees.append(max(family.terms.degree for family in families))
        words.append(f"{mixture} has the least held-out error")
    nothing: list[list[tuple[int, ...]]] = [[] for _ in laws]
    stopped = "; ".join(dict.fromkeys(words))
    return Solved(laws, max(degrees), nothing, stopped, paths, nothing, nothing)


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
    parts, columns = [], []
    if np.isfinite(sparse).all():
        parts, columns = [_Part(None, 0, 0, 0.0)], [sparse]
    for family in families:
        for kind, errors in enumerate(family.errors):
            strength = int(np.argmin(errors))
            if np.isfinite(errors[strength]):
                parts.append(_Part(family, kind, strength, 0.0))
                columns.append(family.held_out[kind, strength])
    y, root = sample.Y[:, output], np.sqrt(sample.weight)
    predictions = np.column_stack(columns)
    mean = np.average(y, weights=sample.weight)
    size = float(np.linalg.norm(root * (y - mean))) or 1.0
    system = np.vstack(
        [(predictions - mean) * root[:, None] / size, np.full(len(parts), _TOGETHER)]
    )
    found, _ = nnls(system, np.append(root * (y - mean) / size, _TOGETHER))
    weights = found / found.sum()
    error = _mean_square(sample, output, predictions @ weights)
    kept = [replace(part, weight=float(w)) for part, w in zip(parts, weights, strict=True) if w > 0]
    return _Mixture(kept, error, families)


def _mean_square(sample: Sample, output: int, predicted: Array) -> float:
    left = sample.Y[:, output] - predicted
    return float(sample.weight @ left**2) / sample.size if np.isfinite(left).all() else np.inf


def _sparse_predictions(
    sample: Sample,
    dimension: int,
    degree: Degree,
    rules: Rules,
    limit: int,
    fold: NDArray[np.int64],
) -> Array:
    """Return the sparse solver's predictions of rows left out (N, outputs); NaN where none is."""
    predicted = np.full(sample.Y.shape, np.nan)
    for k in range(int(fold.max()) + 1):
        inside, outside = part(sample, fold != k), fold == k
        if len(inside.X):
            solved = solve_sparse(inside, dimension, degree, rules, limit)
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
    held_out = np.full((len(KINDS), len(strengths["ridge"]), len(y)), np.nan)
    for k in range(int(fold.max()) + 1):
        inside, outside = fold != k, fold == k
        if not inside.any():
            continue
        sums = Centred.of(phi[inside], y[inside], weight[inside])
        found = sums.coefficients(strengths)
        for i, kind in enumerate(KINDS):
            own, constant = sums.on_features(found[kind])
            held_out[i][:, outside] = (phi[outside] @ own + constant).T
    errors = (y - held_out) ** 2 @ weight / sample.size
    return _Family(terms, scale, held_out, np.where(np.isfinite(errors), errors, np.inf))


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
            coordinates = _coordinates(member.family, member.kind, member.strength, sample, y)
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


def _coordinates(
    family: _Family, kind: int, strength: int, sample: Sample, y: Array
) -> dict[Exponents, float]:
    """Return the coefficients of the orthonormal products of one candidate, fitted to all rows."""
    phi = features(family.terms, sample.X, family.scale)
    sums = Centred.of(phi, y, sample.weight)
    own, constant = sums.on_features(sums.coefficients(sums.strengths())[KINDS[kind]])
    exponents = family.terms.all_exponents()
    values = [float(constant[strength]), *own[:, strength].tolist()]
    found = {a: c for a, c in zip(exponents, values, strict=True) if c}
    if family.scale is None:
        return found
    units = [Fraction(float(s)) for s in family.scale]
    powers = {
        a: Fraction(c) / prod((u**k for u, k in zip(units, a, strict=True)), start=Fraction(1))
        for a, c in found.items()
    }
    return {a: float(c) for a, c in contract(powers, family.terms.columns).items()}


def _steps(mixture: _Mixture, law: SparseLaw, sample: Sample, output: int) -> list[Step]:
    """Return the models of the best lasso's strengths, few terms first, and the law among them."""
    y = sample.Y[:, output]
    family = min(mixture.families, key=lambda f: float(f.errors[1].min()))
    mean = np.average(y, weights=sample.weight)
    spread = float(sample.weight @ (y - mean) ** 2)
    if not spread > 0:
        return []
    phi = features(family.terms, sample.X, family.scale)
    sums = Centred.of(phi, y, sample.weight)
    own, constant = sums.on_features(sums.coefficients(sums.strengths())[KINDS[1]])
    exponents = family.terms.all_exponents()
    steps: list[Step] = []
    for i in range(own.shape[1]):
        kept = [exponents[0], *(exponents[j + 1] for j in np.flatnonzero(own[:, i]))]
        square = float(sample.weight @ (y - phi @ own[:, i] - constant[i]) ** 2)
        held_out = 1 - float(family.errors[1, i]) * sample.size / spread
        if not steps or steps[-1].exponents != kept:
            steps.append(Step(kept, 1 - square / spread, held_out, False))
    square = law.variance * law.freedom
    held_out = 1 - mixture.error * sample.size / spread
    steps.append(Step(list(law.coefficients), 1 - square / spread, held_out, True))
    return sorted(steps, key=lambda step: len(step.exponents))
