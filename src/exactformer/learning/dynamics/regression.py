"""Sparse regression of the equations: generalised least squares with the noise of the states.

Let z be the true states and x = z + ε the measured ones. Row k of the equation for state j leaves

    r_k = (D x_j − S f_j(P x))_k ≈ (D ε_j − S Σ_l diag(∂_l f_j) P ε_l)_k,

so its covariance is known but for f, which is found by turns. Powers of noisy states are biased,
E x² = z² + σ²; Hermite polynomials of the noise's variance are not, E (x² − σ²) = z².
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import stdtrit

from exactformer.core.arrays import Array
from exactformer.learning.dynamics.operators import Operators
from exactformer.learning.dynamics.trajectories import Trajectory
from exactformer.learning.laws.dictionary.terms import Exponents

_TURNS = 10
_FEW = 12
# Directions in which the noise all but cancels are not trusted further than this share of the rest.
_FLOOR = 1e-6


@dataclass(frozen=True)
class Choice:
    """What a term must reach: the level of its test, and its share of the whole right side."""

    level: float
    relevance: float


@dataclass(frozen=True)
class Solution:
    """One state's law: coefficients (p,), zero where a term is out, their covariance, freedom.

    ``explained`` is the share of the squares of D x that the law explains; ``misfit`` is the size of
    the residual in units of the noise, about one where the law is in the dictionary.
    """

    coefficients: Array
    covariance: Array
    freedom: float
    explained: float
    misfit: float

    @property
    def active(self) -> list[int]:
        """The terms that are in."""
        return np.flatnonzero(self.coefficients).tolist()


@dataclass(frozen=True)
class Rows:
    """The equations of one trajectory: features (rows, p), left sides (rows, d)."""

    operators: Operators
    states: Array
    features: Array
    left: Array


def equation_rows(
    trajectory: Trajectory, operators: Operators, exponents: Sequence[Exponents], noise: Array
) -> Rows:
    """Return the equations of one trajectory, with unbiased features."""
    states = operators.P @ trajectory.X
    share = np.asarray(operators.P.power(2).sum(axis=1)).reshape(-1, 1)
    features = operators.S @ unbiased_powers(exponents, states, share * noise**2)
    return Rows(operators, states, features, operators.D @ trajectory.X)


def unbiased_powers(exponents: Sequence[Exponents], X: Array, variance: Array) -> Array:
    """Return Π_j H_{α_j}(x_j), (rows, p), whose mean is z^α if x = z + normal noise.

    >>> unbiased_powers([(2,), (3,)], np.array([[2.0]]), np.array([[0.5]]))
    array([[3.5, 5. ]])
    """
    tables = _hermite(X, variance, max(max(alpha) for alpha in exponents))
    return np.column_stack([_product(alpha, tables) for alpha in exponents])


def gradients(exponents: Sequence[Exponents], coefficients: Array, X: Array) -> Array:
    """Return ∂_l f at the rows, (rows, d), for f = Σ_α c_α x^α."""
    tables = _hermite(X, np.zeros_like(X), max(max(alpha) for alpha in exponents))
    total = np.zeros_like(X)
    for alpha, c in zip(exponents, coefficients.tolist(), strict=True):
        for l, k in enumerate(alpha):  # noqa: E741  (l is the paper's letter next to j)
            if k and c:
                lowered = (*alpha[:l], k - 1, *alpha[l + 1 :])
                total[:, l] += c * k * _product(lowered, tables)
    return total


def solve(
    rows: Sequence[Rows], exponents: Sequence[Exponents], state: int, noise: Array, choice: Choice
) -> Solution:
    """Select and fit the terms of one state, taking turns between law and covariance."""
    law = np.zeros(len(exponents))
    solution: Solution | None = None
    for _ in range(_TURNS):
        white = [_whitened(one, exponents, law, state, noise) for one in rows]
        features = np.concatenate([phi for phi, _ in white])
        left = np.concatenate([b for _, b in white])
        plain = np.concatenate([one.features for one in rows])
        target = np.concatenate([one.left[:, state] for one in rows])
        before = None if solution is None else tuple(solution.active)
        solution = _selected(features, left, plain, target, choice, before)
        if np.allclose(solution.coefficients, law, rtol=1e-3, atol=0):
            break
        law = solution.coefficients
    assert solution is not None
    return solution


def _whitened(
    rows: Rows, exponents: Sequence[Exponents], law: Array, state: int, noise: Array
) -> tuple[Array, Array]:
    """Return features and left side divided by a root of the covariance of their difference."""
    operators, slopes = rows.operators, gradients(exponents, law, rows.states)
    total = np.zeros((len(rows.left), len(rows.left)))
    for j, deviation in enumerate(noise.tolist()):
        through = operators.S @ sparse.diags_array(slopes[:, j]) @ operators.P
        part = ((operators.D if j == state else 0 * operators.D) - through) * deviation
        total += (part @ part.T).toarray()
    spectrum, vectors = np.linalg.eigh(total)
    root = vectors / np.sqrt(np.maximum(spectrum, _FLOOR * spectrum[-1]))
    return root.T @ rows.features, root.T @ rows.left[:, state]


def _selected(
    features: Array,
    left: Array,
    plain: Array,
    target: Array,
    choice: Choice,
    before: tuple[int, ...] | None,
) -> Solution:
    """Choose the terms whose removal, addition or exchange would make the fit no better.

    A fit is judged by ‖r‖² + t² s² · terms, with s² the variance of the rows and t the critical value
    of one term's test: then every term that stays is significant. Irrelevant terms go afterwards.
    """
    count, size = features.shape
    scale = np.linalg.norm(features, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    R = np.asarray(np.linalg.qr(np.column_stack([features / scale, left]), mode="r"))
    subset = _Subset(R[:, :size], R[:, size])
    freedom = count - size
    # Noise is known, so one is expected; more is a law that the terms do not hold in full.
    spread = max(1.0, subset.square(tuple(range(size))) / freedom)
    critical = float(stdtrit(freedom, choice.level / 2))
    price = critical**2 * spread
    starts = [(), tuple(range(size))] if before is None else [(), before]
    active = min((_improved(subset, start, price) for start in starts), key=subset.cost(price))
    share = np.linalg.norm(plain, axis=0) / max(float(np.linalg.norm(target)), 1e-300) / scale
    while active:
        relevance = np.abs(subset.fit(active)[0]) * share[list(active)]
        if relevance.min() >= choice.relevance:
            break
        active = tuple(np.delete(active, int(np.argmin(relevance))).tolist())
    values, inverse = subset.fit(active)
    freedom = count - len(active)
    misfit = float(np.sqrt(subset.square(active) / freedom))
    spread = max(1.0, misfit**2)
    chosen = list(active)
    coefficients, covariance = np.zeros(size), np.zeros((size, size))
    coefficients[chosen] = values / scale[chosen]
    root = inverse / scale[chosen][:, None]
    covariance[np.ix_(chosen, chosen)] = spread * root @ root.T
    away = target - plain @ coefficients
    explained = 1 - float(away @ away) / max(float(target @ target), 1e-300)
    return Solution(coefficients, covariance, freedom, explained, misfit)


@dataclass(frozen=True)
class _Subset:
    """Least squares on some of the columns of a triangular system."""

    R: Array
    right: Array

    def fit(self, active: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the coefficients, and the pseudo-inverse whose rows give their variances."""
        inverse = np.linalg.pinv(self.R[:, list(active)])
        return np.asarray(inverse @ self.right), np.asarray(inverse, dtype=np.float64)

    def square(self, active: tuple[int, ...]) -> float:
        """Return the square of the residual."""
        columns = self.R[:, list(active)]
        away = self.right - columns @ np.linalg.lstsq(columns, self.right)[0]
        return float(away @ away)

    def cost(self, price: float) -> Callable[[tuple[int, ...]], float]:
        """Return what a choice of columns costs: its residual, and a price for each."""
        return lambda active: self.square(active) + price * len(active)


def _improved(subset: _Subset, start: tuple[int, ...], price: float) -> tuple[int, ...]:
    """Take the best step, one term in, out or exchanged, as long as it makes the fit cheaper."""
    cost = subset.cost(price)
    active, best = start, cost(start)
    while True:
        others = [j for j in range(subset.R.shape[1]) if j not in active]
        out = [tuple(k for k in active if k != j) for j in active]
        steps = [*out, *((*active, j) for j in others)]
        # An exchange is worth its time only where few terms are left.
        if len(active) <= _FEW:
            steps += [(*fewer, j) for fewer in out for j in others]
        if not steps:
            return tuple(sorted(active))
        cheapest = min(steps, key=cost)
        if (found := cost(cheapest)) >= best * (1 - 1e-12):
            return tuple(sorted(active))
        active, best = cheapest, found


def _hermite(X: Array, variance: Array, degree: int) -> list[Array]:
    tables = [np.ones_like(X), X]
    for k in range(1, degree):
        tables.append(X * tables[k] - k * variance * tables[k - 1])
    return tables


def _product(alpha: Exponents, tables: list[Array]) -> Array:
    out = np.ones(len(tables[0]))
    for j, k in enumerate(alpha):
        if k:
            out = out * tables[k][:, j]
    return out
