"""The least error that causal linear models can have on a linear relationship.

Inputs x have mean μ and covariance Σ, outputs are y = T x. A model M with offset o errs by

    E = (1/τ) Σ_t E|y(t) − (Mx)(t) − o(t)|² = (1/τ) ( ‖(T − M) L‖² + ‖(T − M) μ − o‖² ),    Σ = L Lᵀ,

which is a least squares problem in M and o: its minimum is exact, no training involved. Two classes:

* *time-varying*: M any lower triangular matrix. For independent inputs of variance v and mean μ,

      E_t = v Σ_{s>t} T(t,s)² + (μ Σ_{s>t} T(t,s) − o(t))² / (1 + (t + 1) μ²/v):

  the variance of what is still to come, and what the offset leaves of its mean; of that, the seen
  values can imitate the greater part. With all offsets free (o(t) any) only the variance stays, and
  then no causal model whatever, linear or not, does better: the future is independent of the past.

* *time-invariant*: M lower triangular Toeplitz. This is what a linear RNN h(t) = W h(t−1) + U x(t),
  y(t) = c·h(t), started at 0, is for some W, U, c with τ states, and all it can be with any number.
  For independent inputs and free offsets the best kernel is the mean along each diagonal of T.

Offsets: none; one constant (a bias of the read-out); or free (a bias in the state, or a learnt h(0):
c·Wˢ·b can be any sequence). Where the model sees z = A x in place of x, give A as ``observed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError

Array = NDArray[np.float64]
Offset = Literal["none", "constant", "free"]

UNIFORM_MEAN, UNIFORM_VARIANCE = 1 / 2, 1 / 12
"""Of inputs uniform on [0, 1], as in appendix C."""
ROUNDING = 1e-12
"""What the inputs leave of a constant if they imitate it exactly, as those of variance 0 do."""


@dataclass(frozen=True, eq=False)
class Floor:
    """The least mean squared error of a class of models, and the model that has it."""

    error: float
    """Averaged over the τ outputs, as in tables 2 and 3."""
    per_time: Array
    model: Array
    """M (τ, τ)."""
    offset: Array
    """o (τ,)."""


def causal_floor(
    matrix: ArrayLike,
    mean: ArrayLike = UNIFORM_MEAN,
    covariance: ArrayLike = UNIFORM_VARIANCE,
    *,
    time_invariant: bool = False,
    offset: Offset = "none",
    observed: ArrayLike | None = None,
) -> Floor:
    """Return the least error on y = T x of causal linear models, ``matrix`` being T (τ, τ).

    ``mean`` is a number or (τ,); ``covariance`` a number or (τ,) for independent inputs, or (τ, τ).
    """
    target = _square(matrix, "target")
    seen = np.eye(len(target)) if observed is None else _square(observed, "matrix of what is seen")
    if seen.shape != target.shape:
        raise InputError(f"the target is {target.shape}, what is seen {seen.shape}")
    if offset not in ("none", "constant", "free"):
        raise InputError(f"an offset is 'none', 'constant' or 'free', not {offset!r}")
    root = _moments(mean, covariance, len(target))
    wanted, given = target @ root, seen @ root
    if offset == "free":
        wanted[:, -1] = given[:, -1] = 0.0
    fit = _time_invariant if time_invariant else _time_varying
    model, constant = fit(wanted, given, offset == "constant")
    residual = wanted - model @ given
    residual[:, -1] -= constant
    per_time = (residual**2).sum(axis=1)
    middle = np.broadcast_to(np.asarray(mean, dtype=np.float64), len(target))
    free = (target - model @ seen) @ middle
    offsets = free if offset == "free" else np.full(len(target), constant)
    return Floor(float(per_time.mean()), per_time, model, offsets)


def constant_error(
    matrix: ArrayLike,
    mean: ArrayLike = UNIFORM_MEAN,
    covariance: ArrayLike = UNIFORM_VARIANCE,
) -> float:
    """Return the error of the best constant on y = T x: that of a model that learnt nothing else."""
    target = _square(matrix, "target")
    outputs = target @ _moments(mean, covariance, len(target))
    return float((outputs[:, :-1] ** 2).sum() / len(target) + outputs[:, -1].var())


def _time_varying(wanted: Array, given: Array, constant: bool) -> tuple[Array, float]:
    """Fit every output to the inputs up to it; one constant may serve all outputs."""
    tau, width = wanted.shape
    one = np.eye(width)[-1]
    fits = [np.linalg.pinv(given[: t + 1]) for t in range(tau)]
    left_of_one = np.array([one - one @ fit @ given[: t + 1] for t, fit in enumerate(fits)])
    left_of_one[np.linalg.norm(left_of_one, axis=1) < ROUNDING] = 0.0
    size = float((left_of_one**2).sum())
    best = float((wanted * left_of_one).sum()) / size if constant and size else 0.0
    model = np.zeros((tau, tau))
    for t, fit in enumerate(fits):
        model[t, : t + 1] = (wanted[t] - best * one) @ fit
    return model, best


def _time_invariant(wanted: Array, given: Array, constant: bool) -> tuple[Array, float]:
    """Fit one kernel, and perhaps a constant, to all outputs at once."""
    tau = len(wanted)
    shifts = [np.eye(tau, k=-lag) for lag in range(tau)]
    columns = [(shift @ given).ravel() for shift in shifts]
    if constant:
        columns.append(np.tile(np.eye(wanted.shape[1])[-1], tau))
    solution = np.linalg.lstsq(np.stack(columns, axis=1), wanted.ravel(), rcond=None)[0]
    model = sum(weight * shift for weight, shift in zip(solution, shifts, strict=False))
    return np.asarray(model), float(solution[-1]) if constant else 0.0


def _moments(mean: ArrayLike, covariance: ArrayLike, tau: int) -> Array:
    """Return (L, μ) as one (τ, τ + 1) matrix: its square is the matrix of second moments."""
    middle, spread = reals(mean, "a mean"), reals(covariance, "a covariance")
    if not (np.isfinite(middle).all() and np.isfinite(spread).all()):
        raise InputError("mean and covariance of the inputs must be finite")
    if middle.shape not in ((), (tau,)) or spread.shape not in ((), (tau,), (tau, tau)):
        raise InputError(
            f"of {tau} inputs the mean is a number or ({tau},), the covariance also "
            f"({tau}, {tau}); these are {middle.shape} and {spread.shape}"
        )
    full = spread if spread.ndim == 2 else np.diag(np.broadcast_to(spread, tau))
    if not np.allclose(full, full.T):
        raise InputError("a covariance is symmetric")
    values, vectors = np.linalg.eigh(full)
    if values[0] < -1e-12 * max(1.0, values[-1]):
        raise InputError(f"a covariance has no negative eigenvalue; this one has {values[0]:.3g}")
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.column_stack([root, np.broadcast_to(middle, tau)])


def _square(matrix: ArrayLike, name: str) -> Array:
    array = reals(matrix, name)
    square = array.ndim == 2 and array.shape[0] == array.shape[1] > 0
    if not square or not np.isfinite(array).all():
        raise InputError(f"the {name} must be a square matrix of finite numbers")
    return array
