"""How well n states can do: realisations of a kernel by linear RNNs, and the limits of all of them.

A linear RNN h(t) = W h(t−1) + U x(t), y(t) = c·h(t) has the kernel ρ̂(s) = c·WˢU. Arranged as a Hankel
matrix Γ(i, j) = ρ̂(i + j) that is (c·Wⁱ)(WʲU): a product through n states, of rank at most n. Hence for
any kernel ρ with singular values σ_1 ≥ σ_2 ≥ … of its own Γ, and every stable RNN with n states,

    σ_{n+1} ≤ ‖Γ − Γ̂‖ ≤ sup_ω |Σ_s (ρ(s) − ρ̂(s)) e^{−iωs}|        (Adamyan, Arov, Kreĭn)

the right side being the worst amplification of any input. *Balanced truncation* keeps the n greatest
singular directions of Γ and stays below 2 Σ_{k>n} σ_k. A kernel of finite length τ is continued by
zeros; Γ is then τ × τ and all of this is plain linear algebra. With n = τ states a *shift register* has
no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError

Array = NDArray[np.float64]

FREQUENCIES = 1024
"""On how many frequencies the worst amplification is looked for."""
RANK = 1e-15
"""Singular values below this, of the greatest, are rounding: no state is spent on them."""


@dataclass(frozen=True, eq=False)
class Realisation:
    """A linear RNN with n states: h(t) = W h(t−1) + U x(t), y(t) = c·h(t), h = 0 at first."""

    W: Array
    """(n, n)."""
    U: Array
    """(n,)."""
    c: Array
    """(n,)."""

    @property
    def states(self) -> int:
        """The number n of states."""
        return len(self.U)

    @property
    def spectral_radius(self) -> float:
        """The greatest |λ| of W: the kernel dies out if it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.W)).max(initial=0.0))

    def kernel(self, length: int) -> Array:
        """Return ρ̂(s) = c·WˢU for s < length."""
        values: Array = np.empty(length)
        state = self.U
        for s in range(length):
            values[s] = self.c @ state
            state = self.W @ state
        return values

    def __call__(self, x: Any) -> Array:
        """Run the recurrence on sequences (…, τ)."""
        x = np.asarray(x, dtype=np.float64)
        state = np.zeros((*x.shape[:-1], self.states))
        outputs: Array = np.empty(x.shape)
        for t in range(x.shape[-1]):
            state = state @ self.W.T + x[..., t, None] * self.U
            outputs[..., t] = state @ self.c
        return outputs


@dataclass(frozen=True)
class ResponseError:
    """How far a realisation is from a kernel that ends after τ values."""

    horizon: float
    """(Σ_{s<τ} |ρ − ρ̂|²)^½: what sequences of length τ see."""
    energy: float
    """The same over all s ≥ 0: the error on white noise of variance 1, after a long time (H₂)."""
    gain: float
    """The worst amplification found on a grid of frequencies (H∞)."""


def hankel(kernel: ArrayLike) -> Array:
    """Return Γ(i, j) = ρ(i + j), the kernel continued by zeros: (τ, τ)."""
    values = _kernel(kernel)
    padded = np.concatenate([values, np.zeros(len(values))])
    return np.asarray(padded[np.add.outer(np.arange(len(values)), np.arange(len(values)))])


def hankel_singular_values(kernel: ArrayLike) -> Array:
    """Return σ_1 ≥ … ≥ σ_τ of the Hankel matrix: how much each further state is worth."""
    return np.asarray(np.linalg.svd(hankel(kernel), compute_uv=False), dtype=np.float64)


def hankel_bounds(kernel: ArrayLike, states: int) -> tuple[float, float]:
    """Return σ_{n+1}, which no stable RNN's gain error is below, and 2 Σ_{k>n} σ_k, which one meets."""
    if not isinstance(states, Integral) or states < 0:
        raise InputError(f"a number of states is 0, 1, 2, …, not {states!r}")
    left_out = hankel_singular_values(kernel)[states:]
    return (float(left_out[0]), float(2 * left_out.sum())) if len(left_out) else (0.0, 0.0)


def shift_register(kernel: ArrayLike) -> Realisation:
    """Return the RNN that remembers the last τ inputs: exact for every kernel of length τ."""
    values = _kernel(kernel)
    tau = len(values)
    return Realisation(np.eye(tau, k=-1), np.eye(tau)[0], values.copy())


def balanced_truncation(kernel: ArrayLike, states: int) -> Realisation:
    """Return the RNN with the n greatest singular directions of Γ; stable, error within the bound.

    W, U, c are read off Γ = O C, cut to rank n, and its shift O W C (Ho, Kalman).
    """
    values = _kernel(kernel)
    if not (isinstance(states, Integral) and 1 <= states <= len(values)):
        raise InputError(f"this kernel allows for 1 to {len(values)} states, not {states}")
    left, sigma, right = np.linalg.svd(hankel(values))
    kept = int(np.count_nonzero(sigma[:states] > sigma[0] * RANK)) if sigma[0] else 0
    root = np.sqrt(sigma[:kept])
    observe, reach = left[:, :kept] * root, root[:, None] * right[:kept]
    shifted = hankel(np.append(values[1:], 0.0))
    W = (left[:, :kept] / root).T @ shifted @ (right[:kept].T / root)
    return Realisation(W, reach[:, 0], observe[0])


def response_error(kernel: ArrayLike, model: Realisation) -> ResponseError:
    """Measure how far the kernel of a stable realisation is from ``kernel``, continued by zeros."""
    values = _kernel(kernel)
    if model.spectral_radius >= 1:
        raise InputError(
            f"the realisation is not stable (spectral radius {model.spectral_radius:.6g}), so over "
            "all times its error is infinite: compare model.kernel(tau) with the kernel instead"
        )
    tau = len(values)
    seen = float(np.sum((values - model.kernel(tau)) ** 2))
    unseen = _energy(model, np.linalg.matrix_power(model.W, tau) @ model.U)
    turn = np.exp(-1j * np.linspace(0.0, np.pi, FREQUENCIES))
    wanted = np.polynomial.polynomial.polyval(turn, values)
    gain = float(np.abs(wanted - _transfer(model, turn)).max())
    return ResponseError(seen**0.5, (seen + unseen) ** 0.5, gain)


def _transfer(model: Realisation, turn: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return Σ_s c·WˢU zˢ = c·(1 − zW)⁻¹U for z on the unit circle."""
    systems = np.eye(model.states) - turn[:, None, None] * model.W
    states = np.linalg.solve(systems, np.broadcast_to(model.U[:, None], (*systems.shape[:2], 1)))
    return np.asarray(states[..., 0] @ model.c)


def _energy(model: Realisation, state: Array) -> float:
    """Return Σ_s |c·Wˢ h|² over all s ≥ 0."""
    from scipy.linalg import solve_discrete_lyapunov

    if model.states == 0:
        return 0.0
    gramian = solve_discrete_lyapunov(model.W.T, np.outer(model.c, model.c))
    return max(float(state @ gramian @ state), 0.0)


def _kernel(kernel: ArrayLike) -> Array:
    values = reals(kernel, "a kernel")
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise InputError(f"a kernel is a list of finite numbers, not of shape {values.shape}")
    return values
