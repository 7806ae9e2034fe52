"""How well n states can do on sequences of length τ, which never see ρ(s) for s ≥ τ.

On that horizon the part Γ_ab of the Hankel matrix with a rows and b columns, a + b = τ + 1, has all
there is to see. For an RNN with n states, stable or not, Γ̂_ab has rank at most n, and ρ(s) stands in it
#_s = #{(i, j) : i + j = s} times. Hence for weights w(s) > 0, by Eckart and Young,

    Σ_{s<τ} w(s) |ρ(s) − ρ̂(s)|² ≥ min_s w(s)/#_s · Σ_{k>n} σ_k(Γ_ab)²,

below which no RNN with n states comes. On the other side 2n values determine n states (Ho, Kalman):
⌈τ/2⌉ of them reproduce almost every kernel of length τ on its horizon, often at the price of poles
outside the unit circle. Between these the best RNN solves a least squares problem, nonlinear in the
poles only: ρ̂ is the impulse response of B(z)/A(z), and for given A the best B is linear. It is followed
from several starting points; what it finds is an upper bound, the one above a lower.

The weights w(s) = v (τ − s)/τ make it the mean squared error over a sequence of independent inputs of
variance v, with free offsets.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError
from exactformer.theory.hankel import Realisation, balanced_truncation, from_factors

Array = NDArray[np.float64]

WILD = 4.0
"""Poles beyond this are of no use as a starting point: their powers drown everything."""
OVERFLOW = 1e100
"""Where a response is taken to be of no use."""


def horizon_bound(kernel: ArrayLike, states: int, weights: ArrayLike | None = None) -> float:
    """Return what Σ w(s) |ρ − ρ̂|²(s), s < τ, is at least for every RNN with n states."""
    values, weight = _weighted(kernel, weights)
    if not isinstance(states, Integral) or states < 0:
        raise InputError(f"a number of states is 0, 1, 2, …, not {states!r}")
    tau = len(values)
    best = 0.0
    for rows in range(states + 1, tau - states + 1):
        part = _part(values, rows, tau + 1 - rows)
        count = np.minimum(np.arange(1, tau + 1), np.arange(tau, 0, -1))
        count = np.minimum(count, min(part.shape))
        sigma = np.linalg.svd(part, compute_uv=False)
        best = max(best, float((weight / count).min() * (sigma[states:] ** 2).sum()))
    return best


def fit_on_horizon(kernel: ArrayLike, states: int, weights: ArrayLike | None = None) -> Realisation:
    """Return the RNN with n states of least Σ w(s) |ρ − ρ̂|²(s), s < τ, that was found."""
    values, weight = _weighted(kernel, weights)
    if not (isinstance(states, Integral) and 1 <= states <= len(values)):
        raise InputError(f"this kernel allows for 1 to {len(values)} states, not {states}")
    read_off = _read_off(values, states)
    starts = [np.zeros(states), *(_denominator(model, states) for model in read_off)]
    refined = [_refined(values, np.sqrt(weight), start) for start in starts]

    def error(model: Realisation) -> float:
        return float(weight @ (values - model.kernel(len(values))) ** 2)

    return min([*read_off, *refined], key=error)


def _read_off(values: Array, states: int) -> list[Realisation]:
    """Return realisations of parts of the Hankel matrix: good where its rank is nearly n."""
    tau = len(values)
    models = [balanced_truncation(values, states)]
    for rows in sorted({states, tau // 2, tau - states}):
        if states <= min(rows, tau - rows):
            part, shifted = (_part(values[s:], rows, tau - rows) for s in (0, 1))
            models.append(from_factors(part, shifted, states))
    return models


def _denominator(model: Realisation, states: int) -> Array:
    """Return a_1 … a_n of A(z) = 1 + a_1 z + … + a_n zⁿ, z the delay, with the model's tamer poles."""
    poles = np.linalg.eigvals(model.W)
    poles = np.where(np.abs(poles) > WILD, 0.0, poles)
    return np.asarray(np.real(np.poly(np.pad(poles, (0, states - len(poles)))))[1:])


def _refined(values: Array, root: Array, start: Array) -> Realisation:
    """Return the local optimum near a denominator, in companion form."""
    from scipy.optimize import least_squares

    wanted = root * values

    def numerator(denominator: Array) -> Array:
        basis = root[:, None] * _responses(denominator, len(values))
        return np.asarray(np.linalg.lstsq(basis, wanted, rcond=None)[0], dtype=np.float64)

    def residual(denominator: Array) -> Array:
        basis = root[:, None] * _responses(denominator, len(values))
        if not np.abs(basis).max() < OVERFLOW:
            return wanted
        return np.asarray(wanted - basis @ numerator(denominator))

    best = least_squares(residual, start, method="lm").x
    companion = np.eye(len(start), k=-1)
    companion[0] = -best
    return Realisation(companion, np.eye(len(start))[0], numerator(best))


def _responses(denominator: Array, tau: int) -> Array:
    """Return the impulse responses of 1/A, z/A, …, zⁿ⁻¹/A as columns (τ, n)."""
    states = len(denominator)
    late = np.zeros(states + tau)
    late[states] = 1.0
    for s in range(states + 1, states + tau):
        late[s] = np.clip(-denominator @ late[s - states : s][::-1], -OVERFLOW, OVERFLOW)
    return np.stack([late[states - lag : states - lag + tau] for lag in range(states)], axis=1)


def _part(values: Array, rows: int, columns: int) -> Array:
    return values[np.add.outer(np.arange(rows), np.arange(columns))]


def _weighted(kernel: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    values = reals(kernel, "a kernel")
    weight = np.ones(values.shape) if weights is None else reals(weights, "weights")
    if values.ndim != 1 or weight.shape != values.shape or len(values) == 0:
        raise InputError(f"kernel and weights are lists, not {values.shape} and {weight.shape}")
    if not (np.isfinite(values).all() and np.isfinite(weight).all() and (weight > 0).all()):
        raise InputError("kernel and weights must be finite, and the weights positive")
    return values, weight
