"""What makes a linear relationship easy for RNNs: the complexity C_RNN of appendix D.1.

For H_t(x) = Σ_{s≤t} ρ(s) x(t − s), equations (76) to (78) have

    C₁ = 1 + γ,   γ = inf{β > 0 : e^{t/β} |ρ(t)| → 0}           how long ρ remembers
    C₂ = sup_t e^{t/C₁} |ρ(t)|                                   how large it is, early or late
    C_RNN = C₁ C₂,   and n states err by d·C_RNN/n               the rate

H belongs to the RNN's space if it has such a kernel, causal and the same at all times, with C_RNN
finite: exponential decay. For ρ = e^{−s/γ} C_RNN = 1 + γ; for a power law γ = ∞. A kernel that ends has
γ = 0, so C₁ = 1 and C₂ = max eˢ|ρ(s)|: to cut e^{−s/10} off at s = 32 raises C_RNN from 11 to 1e12. The
measure is not monotone, and |ρ| ≤ e^{−s/γ} does not bound it, as proposition 6.3 has it. One that is,

    C* = inf_{β ≥ 1} β · sup_t e^{t/β} |ρ(t)|  ≤  C_RNN,

takes the best rate instead of the last; |ρ| ≤ K e^{−s/γ} implies C* ≤ K max(γ, 1).

From finitely many samples γ can only be estimated: :func:`exactformer.theory.decay.fit_decay` on the
envelope max_{s'≥s} |ρ(s')|, with its confidence interval, against the alternative of a power law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import reals
from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError
from exactformer.theory.decay import fit_decay

Array = NDArray[np.float64]

SAMPLES = 256
"""How many values of a kernel given as a function are looked at."""
OVERFLOW = 709.0
"""Where e^x ends in float64."""
BISECTIONS = 64


@dataclass(frozen=True)
class ExponentialKernel:
    """ρ(s) = scale·e^{−s/γ}."""

    gamma: float = 1.0
    scale: float = 1.0

    def __call__(self, s: Any) -> Any:
        """Evaluate at lags s ≥ 0."""
        return self.scale * np.exp(-np.asarray(s) / self.gamma)


@dataclass(frozen=True)
class PowerKernel:
    """ρ(s) = scale·(1 + s)^(−exponent)."""

    exponent: float
    scale: float = 1.0

    def __call__(self, s: Any) -> Any:
        """Evaluate at lags s ≥ 0."""
        return self.scale * (1.0 + np.asarray(s)) ** -self.exponent


@dataclass(frozen=True)
class RecurrentComplexity:
    """C₁, C₂ and C_RNN of a relationship; infinite where it is not in the RNN's space."""

    gamma: float
    """The memory γ."""
    gamma_interval: tuple[float, float]
    """Where γ lies with 95 % confidence; a point where it is exact."""
    C1: float
    """1 + γ."""
    C2: float
    least: float
    """C*, the same with the best rate in place of the last."""
    reason: str
    """Why it belongs to the space, or does not."""

    @property
    def C_RNN(self) -> float:  # noqa: N802
        """C₁·C₂."""
        return self.C1 * self.C2

    @property
    def member(self) -> bool:
        """Whether C_RNN is finite."""
        return isfinite(self.C_RNN)

    def rate(self, states: int, dim: int = 1) -> float:
        """Return the printed bound d·C_RNN/n on the error of n states."""
        if states < 1 or dim < 1:
            raise InputError(f"states and dim are at least 1, not {states} and {dim}")
        return dim * self.C_RNN / states

    def __str__(self) -> str:
        """Return the measures and the reason."""
        if not self.member:
            return f"not in the RNN's space: {self.reason}"
        low, high = self.gamma_interval
        memory = f"{self.gamma:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low < high else "")
        return (
            f"C_RNN = {self.C_RNN:.4g}   C₁ = 1 + γ, γ = {memory}; C₂ = {self.C2:.4g}; "
            f"C* = {self.least:.4g}\n{self.reason}"
        )


def outsider(reason: str) -> RecurrentComplexity:
    """Return the complexity of what is not in the RNN's space."""
    return RecurrentComplexity(inf, (inf, inf), inf, inf, inf, reason)


def rnn_complexity(
    kernel: Callable[[Array], Any] | ArrayLike, *, ends: bool = False
) -> RecurrentComplexity:
    """Return C₁, C₂ and C_RNN of the relationship with this kernel, or with this matrix T (τ, τ).

    A kernel is an :class:`ExponentialKernel` or :class:`PowerKernel` (exact), a function of the lag, or
    its values ρ(0), ρ(1), …; ``ends`` says that it is 0 after them, else its decay is estimated.
    """
    if isinstance(kernel, ExponentialKernel):
        return _exponential(kernel)
    if isinstance(kernel, PowerKernel):
        return outsider(f"|ρ(s)| falls like s^(−{kernel.exponent:g}), slower than any exponential")
    lags = np.arange(SAMPLES, dtype=np.float64)
    values = reals(kernel(lags.copy()) if callable(kernel) else kernel, "a kernel")
    if values.ndim not in (1, 2) or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"a kernel is a list of finite numbers, not of shape {values.shape}")
    if callable(kernel):
        check_pointwise(values, lambda k: kernel(lags[k : k + 1].copy()), "a kernel")
    if values.ndim == 2:
        why = why_no_kernel(values)
        return outsider(why) if why else rnn_complexity(values[:, 0], ends=ends)
    if ends or not values.any():
        return _measured(values, 0.0, (0.0, 0.0), f"ρ(s) = 0 from s = {len(values)} on")
    return _estimated(values)


def why_no_kernel(matrix: ArrayLike) -> str:
    """Return why y = T x is not of the form (75), or nothing if it is."""
    T = np.asarray(matrix, dtype=np.float64)
    ahead = np.argwhere(np.triu(T, 1))
    if len(ahead):
        return "not causal: output {} depends on input {}".format(*(int(i) for i in ahead[0]))
    for lag in range(len(T)):
        diagonal = np.diagonal(T, -lag)
        if (diagonal != diagonal[0]).any():
            return f"not time-invariant: the weight of lag {lag} changes with time"
    return ""


def mixing_constant(filter: ArrayLike, gamma: float, causal: bool = False) -> float:
    """Return the least K such that |ρ| ≤ e^{−s/γ} implies |ρ̃| ≤ K e^{−s/γ} for the mixed kernel.

    The printed filter has ρ̃(s) = Σ θ(s') ρ(s + s') at lags s ≥ 0, and K = Σ |θ(s')| e^{−s'/γ} ≤ ‖θ‖₁;
    it also looks ahead, which (96) leaves out. The causal one has ρ(s − s'): K = Σ |θ(s')| e^{s'/γ}.
    """
    if not gamma > 0:
        raise InputError(f"a memory γ is positive, not {gamma}")
    theta = np.abs(reals(filter, "a filter"))
    lags = np.arange(len(theta))
    return float(theta @ np.exp(lags / gamma if causal else -lags / gamma))


def _exponential(kernel: ExponentialKernel) -> RecurrentComplexity:
    if not kernel.gamma > 0:
        return outsider(f"e^(−s/γ) with γ = {kernel.gamma:g} does not decay")
    if kernel.scale == 0:
        return _measured(np.zeros(1), 0.0, (0.0, 0.0), "ρ = 0")
    size, gamma = abs(kernel.scale), kernel.gamma
    return RecurrentComplexity(
        gamma=gamma,
        gamma_interval=(gamma, gamma),
        C1=1 + gamma,
        C2=size,
        least=size * max(gamma, 1.0),
        reason=f"|ρ(s)| = {size:g} e^(−s/{gamma:g})",
    )


def _estimated(values: Array) -> RecurrentComplexity:
    envelope = np.maximum.accumulate(np.abs(values)[::-1])[::-1]
    decay = fit_decay(envelope)
    if decay.rank is not None and decay.rank < len(values):
        return _measured(values, 0.0, (0.0, 0.0), f"ρ(s) = 0 from s = {decay.rank} on")
    count = len(values)
    if decay.shape == "power":
        low, high = decay.power.interval if decay.power else (0.0, 0.0)
        return outsider(
            f"|ρ(s)| falls like a power of s, exponent {decay.alpha:.3g} [{low:.3g}, {high:.3g}] in "
            f"{count} values: slower than any exponential"
        )
    line = decay.exponential
    if decay.shape == "undecided" or line is None or line.interval[0] <= 0:
        return outsider(f"{count} values show no exponential decay")
    low, high = line.interval
    return _measured(
        values, 1 / line.rate, (1 / high, 1 / low), f"|ρ(s)| falls like e^(−s/γ) in {count} values"
    )


def _measured(
    values: Array, gamma: float, interval: tuple[float, float], reason: str
) -> RecurrentComplexity:
    lags = np.flatnonzero(values)
    if not len(lags):
        return RecurrentComplexity(gamma, interval, 1 + gamma, 0.0, 0.0, reason)
    logs = np.log(np.abs(values[lags]))
    largest = exp(min(float((logs + lags / (1 + gamma)).max()), OVERFLOW))
    least = exp(min(_least(lags, logs, 1 / max(gamma, 1.0)), OVERFLOW))
    return RecurrentComplexity(gamma, interval, 1 + gamma, largest, least, reason)


def _least(lags: NDArray[np.intp], logs: Array, steepest: float) -> float:
    """Return the least log(sup_t e^{λt}|ρ(t)|/λ) over 0 < λ ≤ ``steepest``.

    It is convex in λ, with slope t − 1/λ where the supremum is at t: the sign is bisected.
    """
    low, high = 0.0, steepest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        rising = lags[np.argmax(logs + middle * lags)] * middle > 1
        low, high = (low, middle) if rising else (middle, high)
    return float((logs + high * lags).max()) - log(high)
