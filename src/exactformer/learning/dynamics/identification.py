"""The law of trajectories: from times and noisy states to differential equations."""

from __future__ import annotations

import warnings
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from exactformer.core.arrays import Array
from exactformer.core.options import choose, positive_integer
from exactformer.errors import InputError
from exactformer.learning.dynamics.equations import Equations
from exactformer.learning.dynamics.operators import smoothing, weak_form
from exactformer.learning.dynamics.regression import Choice, Rows, equation_rows, solve
from exactformer.learning.dynamics.trajectories import (
    Trajectories,
    given_trajectories,
    noise_deviations,
)
from exactformer.learning.laws.dictionary.terms import Exponents, count_terms
from exactformer.learning.threads import one_blas_thread

METHODS = {"weak": weak_form, "smoothing": smoothing}
_NARROWEST = {"weak": 5, "smoothing": 3}
# Rows per coefficient below which nothing can be said of the noise.
_ROWS_PER_TERM = 2
_MOST_TERMS = 500
_MISFIT, _EXPLAINED, _NOISY = 2.0, 0.99, 0.15
# A deviation below this share of the largest value is rounding.
_STILL = 1e-12


class MisfitWarning(UserWarning):
    """A slope is neither explained by the law nor by noise, or noise is too large to tell."""


def fit_dynamics(
    t: Any,
    X: Any,
    *,
    degree: int = 3,
    method: str = "weak",
    significance: float = 0.01,
    relevance: float = 0.01,
) -> Equations:
    """Find the polynomial law x' = f(x) behind noisy trajectories.

    Args:
        t: increasing times (n,), or the name of their column in a DataFrame; a list of them for
            several trajectories of the same states.
        X: states (n, d) measured at these times, an array or a DataFrame; or a list of them.
        degree: highest total degree of a term.
        method: ``"weak"`` multiplies by test functions and integrates by parts, so no derivative of
            noisy data is taken; ``"smoothing"`` fits a cubic to the neighbours of each time.
        significance: the probability of keeping any term that is not there, in all equations together.
        relevance: a term whose contribution is below this share of the whole right side, both as
            root mean squares, is left out, however significant; 0 keeps it.

    The noise of each state is estimated from the data and taken to be independent from time to time.
    Intervals account for it on both sides of the equations; where the residual is larger than that
    noise explains (the law is not in the dictionary, samples are too far apart), they are widened, and
    :class:`MisfitWarning` is given if that matters. Gaps in the times cut a trajectory.

    Raises:
        InputError: if times do not increase, values are missing, or there are too few of them.

    >>> import numpy as np
    >>> t = np.linspace(0, 10, 200)
    >>> print(fit_dynamics(t, np.column_stack([np.cos(t), np.sin(t)]).round(2)))
    x1' = -0.99968 x2
    x2' = 0.99986 x1
    """
    choose("method", method, tuple(METHODS))
    degree = positive_integer(degree, "degree")
    if not 0 < significance < 1 or not 0 <= relevance < 1:
        raise InputError("significance must lie between 0 and 1, relevance in [0, 1)")
    given = given_trajectories(t, X)
    noise = noise_deviations(given.pieces)
    terms = _terms(len(given.names), degree)
    width = max(_NARROWEST[method], _time_scale(given, noise) // (1 if method == "weak" else 3))
    with one_blas_thread():
        rows = _rows(given, terms, noise, method, width)
        choice = Choice(significance / len(terms) / len(given.names), relevance)
        solutions = [solve(rows, terms, j, noise, choice) for j in range(len(given.names))]
    states = given.states
    box = np.column_stack([states.min(axis=0), states.max(axis=0)])
    found = Equations(given.names, terms, solutions, noise, box, method)
    deviation = states.std(axis=0)
    # A state that stands still has a deviation of rounding at most, and no law to get wrong.
    moving = deviation > _STILL * np.abs(states).max(axis=0)
    _warn(found, degree, np.divide(noise, deviation, out=np.zeros_like(noise), where=moving))
    return found


def _warn(found: Equations, degree: int, noisy: Array) -> None:
    """Warn of states whose slope is neither explained nor noise, and of those that are mostly noise."""
    for name, share in zip(found.names, noisy.tolist(), strict=True):
        if share > _NOISY:
            warnings.warn(
                f"the noise of {name} is {share:.0%} of its deviation. Terms and intervals rest on "
                f"small noise; above {_NOISY:.0%} wrong terms may pass. Average repeated measurements, "
                "or measure more trajectories",
                MisfitWarning,
                stacklevel=3,
            )
    for name, explained, misfit in zip(found.names, found.explained, found.misfit, strict=True):
        if misfit > _MISFIT and explained < _EXPLAINED:
            warnings.warn(
                f"{name}': terms up to degree {degree} explain {explained:.1%} of the slope, and the "
                f"rest is {misfit:.3g} times what noise explains. The law may need a higher degree, "
                "another kind of term, a state that was not measured, or more samples per oscillation",
                MisfitWarning,
                stacklevel=3,
            )


def _terms(dimension: int, degree: int) -> list[Exponents]:
    if (count := count_terms(dimension, degree)) > _MOST_TERMS:
        raise InputError(
            f"{count:,} terms of degree {degree} in {dimension} states; the limit is {_MOST_TERMS}. "
            "Lower degree="
        )
    chosen = (
        c for q in range(degree + 1) for c in combinations_with_replacement(range(dimension), q)
    )
    return [tuple(c.count(j) for j in range(dimension)) for c in chosen]


def _rows(
    given: Trajectories, terms: list[Exponents], noise: Array, method: str, width: int
) -> list[Rows]:
    """Return the equations of all trajectories; narrower ones where there would be too few."""
    while True:
        found = [(piece, METHODS[method](piece, width)) for piece in given.pieces]
        kept = [(piece, own) for piece, own in found if own is not None]
        count = sum(own.D.shape[0] for _, own in kept)
        if count >= _ROWS_PER_TERM * len(terms):
            return [equation_rows(piece, own, terms, noise) for piece, own in kept]
        if width <= _NARROWEST[method]:
            times = sum(len(piece.t) for piece in given.pieces)
            raise InputError(
                f"{times} times give {count} equations for {len(terms)} terms, which need "
                f"{_ROWS_PER_TERM * len(terms)}. Lower degree=, or give longer trajectories"
            )
        width = max(_NARROWEST[method], width * 3 // 4)


def _time_scale(given: Trajectories, noise: Array) -> int:
    """Return after how many samples the fastest state has changed by its own deviation.

    Of a sine it is a sixth of the period. What noise adds to the differences is taken off.
    """
    longest = max(given.pieces, key=lambda piece: len(piece.t))
    X = longest.X
    spread = np.maximum(X.var(axis=0) - noise**2, 0)
    for lag in range(1, len(X) // 4):
        change = np.square(X[lag:] - X[:-lag]).mean(axis=0) - 2 * noise**2
        if (change[spread > 0] >= spread[spread > 0]).any():
            return lag
    return max(1, len(X) // 8)
