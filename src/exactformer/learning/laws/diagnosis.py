"""Diagnosis of a fitted law: what it leaves unexplained, which rows decide, and what to try.

Four questions, each answered in words. Does least squares over all terms explain much that the law
does not? Do a few rows carry most of the residual? Are most rows copies of others? Do the residuals
follow a column, the fitted values or the order of the rows? The last is Bartels' rank test: sorted by
a column, neighbours among independent residuals have ranks R with Σ(R_{i+1} − R_i)²/Σ(R_i − R̄)² ≈
2 ± 2/√n, whatever their distribution; a smaller ratio means that a curve through them explains part of
their variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from exactformer.learning.laws.dense.degree import leave_one_out
from exactformer.learning.laws.dense.least_squares import normal_equations
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.dictionary.terms import count_terms
from exactformer.learning.laws.sample import Sample, all_differ, equal_rows, median, weighted_median

# Rows looked at, and terms of the least squares that a law is compared with.
_ROWS = 3000
_TERMS = 200
_DEGREES = 8
# A residual beyond so many robust standard deviations is an outlier.
_FAR = 8.0
# The share of Σr² that outliers must have, and of the variance that least squares must add.
_MUCH, _MORE = 0.25, 0.1
# Structure in residuals: the z-value of the test, and the explained share that calls for a warning.
_SURE, _SHARE = -5.0, 0.1
# Residuals of less than this share of the variance of y are not worth a warning.
_SMALL = 1e-4
_FEWEST = 20
# Residuals below this share of y are rounding.
_EXACT = 1e-9


class LawWarning(UserWarning):
    """A law that may not be the one behind the data: nothing found, outliers, structure left.

    >>> import exactformer as ef
    >>> issubclass(ef.LawWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class Finding:
    """One sentence or two about a fit; ``serious`` ones are also warnings."""

    text: str
    serious: bool


@dataclass(frozen=True)
class Discovered:
    """A law of the sparse solver: how many terms besides the constant, of which degree and level.

    ``design`` has the features of its sample, of that degree or a higher one.
    """

    terms: int
    degree: int
    significance: float
    design: Design | None = None


def diagnose(
    sample: Sample,
    output: int,
    fitted: Array,
    names: Sequence[str],
    *,
    set_aside: NDArray[np.bool_] | None,
    discovered: Discovered | None,
) -> list[Finding]:
    """Return what the residuals of one law give to say; nothing if it is exact up to rounding.

    ``set_aside`` are the rows that a robust loss has dealt with, and only a discovered law is held
    against least squares.
    """
    found = []
    if set_aside is None:
        found = outliers(sample.Y[:, output] - fitted, sample.weight)
    else:
        sample, fitted = sample.part(~set_aside), fitted[~set_aside]
    y = sample.Y[:, output]
    residual = y - fitted
    exact = float(sample.weight @ residual**2) <= _EXACT**2 * float(sample.weight @ y**2)
    if exact:
        return []
    if not sample.X.shape[1]:
        text = "every column is constant and the target is not; its mean is the law and explains "
        text += "nothing"
        return [Finding(text, True)]
    found += copies(sample, output)
    if discovered is not None:
        found += missed(sample, output, residual, discovered)
    return found + structure(sample.X, fitted, residual, names, float(np.var(y)))


def robust_spread(residual: Array, weight: Array) -> float:
    """Return the standard deviation that normal noise would need for this median |r|."""
    return 1.4826 * weighted_median(np.abs(residual), weight)


def far_rows(residual: Array, weight: Array) -> NDArray[np.bool_]:
    """Return a mask of the rows whose residual is far beyond what the others would suggest."""
    return np.abs(residual) > (_FAR * robust_spread(residual, weight) or np.inf)


def outliers(residual: Array, weight: Array) -> list[Finding]:
    """Report rows that have much of the residual between them."""
    far = far_rows(residual, weight)
    square = weight * residual**2
    if not far.any() or square[far].sum() < _MUCH * square.sum():
        return []
    share = square[far].sum() / square.sum()
    return [
        Finding(
            f"{int(far.sum()):,} of {len(residual):,} rows are more than {_FAR:g} robust standard "
            f"deviations from the law and have {share:.0%} of the squared residuals. Outliers or "
            "heavy tails hide terms; loss='huber' or loss='trimmed' limits what they can do",
            True,
        )
    ]


def copies(sample: Sample, output: int) -> list[Finding]:
    """Report rows that come again and again, always with the same target in spite of the noise."""
    y = sample.Y[:, output]
    if len(y) < 4 or (sample.weight != sample.weight[0]).any() or all_differ(sample.X):
        return []
    places = len(np.unique(equal_rows(sample.X)))
    if 2 * places > len(y) or places < len(np.unique(equal_rows(np.column_stack([sample.X, y])))):
        return []
    text = (
        f"only {places:,} of {len(y):,} rows are different, and copies have the same target. Each "
    )
    text += (
        "counts as an observation, so standard errors are too small and terms may be false; drop "
    )
    return [Finding(text + "copies unless they are repeated measurements", True)]


def missed(sample: Sample, output: int, residual: Array, law: Discovered) -> list[Finding]:
    """Report what least squares explains beyond a law, and always where a law has no terms."""
    y = sample.Y[:, output]
    whole = _size(y - median(y), sample.weight)
    if not (whole > 0 and np.ptp(y) > 0):
        return []
    share = max(0.0, 1 - _size(residual, sample.weight) / whole)
    if law.terms and share > 1 - _MORE:
        return []
    best = _least_squares(sample, output, law)
    if law.terms and (best is None or best.share - share <= _MORE):
        return []
    had = f"the law has {law.terms} term(s) and explains {share:.0%} of the variance"
    if not law.terms:
        had = f"no term besides the constant passes at significance={law.significance:g}"
    if best is None:
        text = f"{had}: {len(y):,} rows are too few to tell terms from noise. Give more rows"
        return [Finding(text, True)]
    explained = f"least squares over all {best.terms:,} terms up to degree {best.degree} explains "
    explained += f"{max(best.share, 0):.0%} of rows left out"
    if best.share - share <= _MORE / 2:
        text = (
            f"{had}; {explained}, no more than noise would let it. If a law is there, it is not in "
        )
        text += "these terms: more rows, a higher degree=, features= or another column may show it"
    else:
        text = f"{had}, but {explained}. Single terms do not stand out: they are many and weak, nearly "
        text += "collinear, or decided by a few rows. Try a larger significance=, another degree=, "
        text += "more rows or features="
    return [Finding(text, True)]


@dataclass(frozen=True)
class _LeastSquares:
    degree: int
    terms: int
    share: float


def _least_squares(sample: Sample, output: int, law: Discovered) -> _LeastSquares | None:
    """Return the degree at which least squares explains most of rows left out, where any can be had."""
    rows = slice(None, None, -(-len(sample.X) // _ROWS))
    some = sample.part(rows)
    y, weight = some.Y[:, output], some.weight
    most = min(_TERMS, len(y) // 3)
    able = [q for q in range(1, law.degree + 1) if count_terms(some.X.shape[1], q) <= most]
    if not able:
        return None
    tried = able[:: -(-len(able) // _DEGREES)]
    if law.design is not None and law.design.sample is sample and len(y) == len(sample.Y):
        design = law.design.up_to(tried[-1])
    else:
        design = Design.of(some, tried[-1])
    left_out = leave_one_out(design, *normal_equations(design))[..., output]
    counts = np.cumsum(np.bincount(design.terms.total, minlength=tried[-1] + 1)).tolist()
    whole = _size(y - median(y), weight)
    found = [
        _LeastSquares(q, counts[q], 1 - _size(left_out[q], weight) / whole)
        for q in tried
        if q < len(left_out)
    ]
    return max(found, key=lambda f: f.share, default=None)


def _size(values: Array, weight: Array) -> float:
    """Return the mean square, values beyond three robust standard deviations drawn in to these."""
    reach = 3 * robust_spread(values, weight) or np.inf
    return float(weight @ np.minimum(np.abs(values), reach) ** 2 / weight.sum())


def structure(
    X: Array, fitted: Array, residual: Array, names: Sequence[str], y_variance: float
) -> list[Finding]:
    """Report what residuals and their sizes follow: a column, the fitted values, the row before."""
    if not all_differ(X):
        # Equal rows would be neighbours of equal rank; each counts once.
        _, first = np.unique(equal_rows(np.column_stack([X, residual])), return_index=True)
        first.sort()
        X, fitted, residual = X[first], fitted[first], residual[first]
    n = len(residual)
    if n < _FEWEST or not np.ptp(residual) > 0:
        return []
    worth = float(residual @ residual) / n > _SMALL * y_variance
    rows = np.random.default_rng(0).permutation(n)[:_ROWS]
    places = [*(f"the column {name}" for name in names), "the fitted values"]
    orders = _orders(np.vstack([X[rows].T, fitted[rows]]))
    r = residual[rows]
    found = []
    curves = zip(places, _share(_ranks(r)[orders]).tolist(), strict=True)
    for what, share in sorted(curves, key=lambda c: -c[1])[:3]:
        if share > -_SURE / np.sqrt(len(r)):
            text = (
                f"the residuals follow {what}: a curve explains about {share:.0%} of their variance"
            )
            text += ". A higher degree= or another function (features=) may hold it"
            found.append(Finding(text, worth and share >= _SHARE))
    curved = bool(found)
    sizes = zip(places, _share(_ranks(np.abs(r))[orders]).tolist(), strict=True)
    what, share = max(sizes, key=lambda c: c[1])
    if share > -_SURE / np.sqrt(len(r)) and not curved:
        text = f"the size of the noise follows {what}. The standard errors hold for that (HC3)"
        found.append(Finding(text, False))
    in_order = float(_share(_ranks(residual[:_ROWS])))
    if not curved and in_order > -_SURE / np.sqrt(min(n, _ROWS)):
        text = "neighbouring rows have similar residuals, as in a series in time. Standard errors "
        text += "assume independent rows and are too small here"
        found.append(Finding(text, worth and in_order >= _SHARE))
    return found


def _orders(places: Array) -> NDArray[np.int64]:
    """Return the order of each line (k, n), equal places as they come."""
    orders = np.argsort(places, axis=1)
    ordered = np.take_along_axis(places, orders, axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    orders[tied] = np.argsort(places[tied], axis=1, kind="stable")
    return orders


def _ranks(values: Array) -> Array:
    """Return the rank of each value, equal ones their mean."""
    order = np.argsort(values)
    ordered = values[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.asarray(rankdata(values))
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1.0, len(values) + 1)
    return ranks


def _share(ranks: Array) -> Array:
    """Return the share of the variance of ranks that neighbours have in common, about 0 for noise.

    The ranks are those of the last axis.
    """
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    whole = np.square(centred).sum(axis=-1)
    steps = np.square(np.diff(ranks, axis=-1)).sum(axis=-1)
    return np.asarray(np.where(whole > 0, 1 - steps / np.maximum(whole, 1e-300) / 2, 0.0))
