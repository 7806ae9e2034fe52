"""Whether a fitted polynomial may be called a law, or is an approximation of one.

A search can stop at many wrong terms that follow the data as well as a law would, with small p-values
each; on positive columns, far from their centre, it often does. So a fit is an *approximation* unless
three things allow more:

* residuals: nothing serious was found in them;
* rivals: no fewer terms of the same dictionary, and no product of powers, describe the rows better by
  the Bayesian information criterion;
* a refit off the centre: the rows far from the centre of the columns, fitted by themselves, have the
  same terms, and so have those near it.

None of these proves a law. Each has found fits that were none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from itertools import combinations_with_replacement as _repeated
from math import comb, log

import numpy as np

from exactformer.errors import ExactformerError
from exactformer.learning.laws.dense.solvers import Solved
from exactformer.learning.laws.diagnosis import Finding
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.terms import Exponents
from exactformer.learning.laws.sample import Sample

LAW, APPROXIMATION = "law", "approximation"
_ROWS = 4000  # of a refit, and of the comparison with rivals
_TERMS = 300  # of a dictionary whose terms are compared as rivals
_SETS = 20_000  # of terms that are compared as rivals
_FEWEST = 20  # rows whose halves are fitted again
_EXACT = 1e-9  # residuals below this share of y are rounding


@dataclass(frozen=True)
class Kind:
    """What a fit may be called, and why."""

    word: str
    why: str


def kinds(
    sample: Sample,
    solved: Solved,
    findings: Iterable[Finding],
    outputs: Sequence[str],
    solve: Callable[[Sample], Solved],
) -> list[Kind]:
    """Return what the law of each output may be called; a finding about one begins with its name."""
    serious = [finding.text for finding in findings if finding.serious]
    refits = [_refit(sample, far, solve) for far in (False, True)]
    found = []
    for output in range(len(solved.laws)):
        others = tuple(f"{name}: " for k, name in enumerate(outputs) if k != output)
        about = [text for text in serious if not text.startswith(others)]
        kind = Kind(APPROXIMATION, about[0]) if about else _kind(sample, output, solved, refits)
        found.append(kind)
    return found


def _kind(sample: Sample, output: int, solved: Solved, refits: list[Solved | None]) -> Kind:
    terms = _terms(solved, output)
    if not terms:
        return Kind(APPROXIMATION, "no term besides the constant was found")
    for refit, where in zip(refits, ("near", "far from"), strict=True):
        if refit is None:
            return Kind(APPROXIMATION, "there are too few rows to fit parts of them again")
        if _terms(refit, output) != terms:
            return Kind(
                APPROXIMATION, f"the rows {where} the centre of the columns have other terms"
            )
    inner = [tuple(alpha[j] for j in sample.used) for alpha in terms]
    if rival := _rival(_spread(sample), output, inner, solved.degree):
        return Kind(APPROXIMATION, rival)
    return Kind(LAW, "parts of the rows have the same terms, and no simpler form describes them")


def _terms(solved: Solved, output: int) -> set[Exponents]:
    """Return the terms of a law, the constant left out."""
    return {alpha for alpha in solved.laws[output].powers() if any(alpha)}


def _refit(sample: Sample, far: bool, solve: Callable[[Sample], Solved]) -> Solved | None:
    """Fit the half of the rows that is nearer to the centre, or farther from it, if it can be."""
    if not sample.X.shape[1] or len(sample.X) < _FEWEST:
        return None
    centre, width = np.median(sample.X, axis=0), sample.X.std(axis=0)
    away = np.max(np.abs(sample.X - centre) / np.where(width > 0, width, 1), axis=1)
    half = np.zeros(len(away), dtype=bool)
    half[np.argsort(away, kind="stable")[: len(away) // 2]] = True
    part = _spread(sample.part(half != far))
    if not np.ptp(part.X, axis=0).all():
        return None  # a column that no longer varies
    try:
        return solve(part)
    except ExactformerError:
        return None


def _spread(sample: Sample) -> Sample:
    """Return no more rows than are needed, taken evenly."""
    if len(sample.X) <= _ROWS:
        return sample
    rows = np.zeros(len(sample.X), dtype=bool)
    rows[np.linspace(0, len(rows) - 1, _ROWS).astype(int)] = True
    return sample.part(rows)


def _rival(sample: Sample, output: int, terms: list[Exponents], degree: int) -> str:
    """Return a form that describes the rows better than these terms; nothing if there is none."""
    X, y, size = sample.X, sample.Y[:, output], max(sample.size, 2.0)
    root = np.sqrt(sample.weight)
    least = (_EXACT * np.abs(y).max()) ** 2 * size

    def criterion(square: float, parameters: int) -> float:
        return size * log(max(square, least, 1e-300) / size) + parameters * log(size)

    def square(columns: Array) -> float:
        design = root[:, None] * np.column_stack([np.ones(len(X)), columns])
        found = np.linalg.lstsq(design, root * y, rcond=None)[0]
        return float(np.square(root * y - design @ found).sum())

    own = criterion(square(_columns(X, terms)), len(terms) + 1)
    if (
        len(terms) > X.shape[1] + 1
        and (X > 0).all()
        and (np.sign(y) == np.sign(y[0])).all()
        and y[0]
    ):
        logs = np.column_stack([np.ones(len(X)), np.log(X)])
        powers = np.linalg.lstsq(root[:, None] * logs, root * np.log(np.abs(y)), rcond=None)[0]
        left = y - np.sign(y[0]) * np.exp(logs @ powers)
        if criterion(float(sample.weight @ left**2), X.shape[1] + 1) < own:
            return "a product of powers of the columns describes the rows better"
    alphas = _all_terms(X.shape[1], degree)
    every = _columns(X, alphas) if alphas else None
    for count in range(1, min(len(terms), 4)):
        if every is None or comb(len(alphas), count) > _SETS:
            break
        for chosen in _best(every, y, sample.weight, count):
            if criterion(square(every[:, chosen]), count + 1) < own:
                return f"{count} of the dictionary's terms describe the rows better"
    return ""


def _all_terms(dimension: int, degree: int) -> list[Exponents]:
    """Return all terms up to a degree, the constant left out; none if they are too many."""
    if comb(dimension + degree, degree) > _TERMS:
        return []
    chosen = (c for s in range(1, degree + 1) for c in _repeated(range(dimension), s))
    return [tuple(c.count(j) for j in range(dimension)) for c in chosen]


def _columns(X: Array, terms: Iterable[Exponents]) -> Array:
    return np.column_stack([np.prod(X ** np.array(alpha), axis=1) for alpha in terms] or [X[:, :0]])


def _best(columns: Array, y: Array, weight: Array, count: int) -> list[list[int]]:
    """Return the few sets of so many columns that leave least of y, by their Gram matrix."""
    root = np.sqrt(weight / weight.sum())
    means = (root**2) @ columns
    centred = root[:, None] * (columns - means)
    scale = np.linalg.norm(centred, axis=0)
    centred = centred / np.where(scale > 0, scale, 1)
    target = root * (y - (root**2) @ y)
    gram, reach = centred.T @ centred, centred.T @ target
    sets = np.array(list(combinations(range(columns.shape[1]), count)))
    blocks = gram[sets[:, :, None], sets[:, None, :]] + 1e-12 * np.eye(count)
    found = np.linalg.solve(blocks, reach[sets][:, :, None])[:, :, 0]
    order = np.argsort(-(found * reach[sets]).sum(axis=1))[:5]
    return [sets[k].tolist() for k in order]
