"""What is known beforehand about the targets of section 5.1, and how fast a curve falls.

The targets are ρ(u, v) = Σ_{k≤r} k^(−α) · √2 sin 2πku · √2 sin 2πkv with F = f = id, sequences of
τ = 16 uniform tokens, and r = 2, 6 or ∞ (256 terms). With ρ cut after m terms,

    T² = Σ_{k>m} σ_k²                         between two different tokens, E|ρ − ρ_m|²
    D² = (Σ_{k>m} σ_k)² + ½ Σ_{k>m} σ_k²      of a token with itself, since 2 sin² z = 1 − cos 2z

The softmax weights of two rows of scores differ by at most their largest difference, in the sum of
absolute values, and f is within ½ of its midrange. Interpolation on N pieces moves ρ_m by at most
ε = Σ_{k≤m} σ_k (2πk)²/(2N²) and leaves F and f as they are. Hence, for the constructed model,

    E|H_t − Ĥ_t|² ≤ ¼ (√((τ−1) T² + D²) + ε)².

``theory.bound`` says the same of any target, and a little more: it weighs scores by the largest weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TAU = 16
ALPHAS = (1.0, 2.0)
TERMS = {"2": 2, "6": 6, "∞": 256}
"""Ranks by the names the figure gives them."""


def singular_values(alpha: float, rank: str) -> Array:
    """Return σ_k = k^(−α), as many as the rank has."""
    return np.arange(1.0, TERMS[rank] + 1) ** -alpha


def tail(sigma: Array, head_dim: int) -> float:
    """Return T², the least mean squared error of a kernel of rank m (equation 11)."""
    return float((sigma[head_dim:] ** 2).sum())


def diagonal(sigma: Array, head_dim: int) -> float:
    """Return D², the mean square of what is cut off at u = v."""
    return float(sigma[head_dim:].sum() ** 2) + tail(sigma, head_dim) / 2


def interpolation(sigma: Array, head_dim: int, pieces: int) -> float:
    """Return ε, how far interpolation of sines can move the first m terms of ρ."""
    k = np.arange(1, len(sigma[:head_dim]) + 1)
    return float((sigma[:head_dim] * (2 * pi * k) ** 2).sum()) / (2 * pieces**2)


def bound(sigma: Array, head_dim: int, pieces: int) -> float:
    """Return what the mean squared error of the constructed model cannot pass."""
    cut = sqrt((TAU - 1) * tail(sigma, head_dim) + diagonal(sigma, head_dim))
    return (cut + interpolation(sigma, head_dim, pieces)) ** 2 / 4


@dataclass(frozen=True)
class Slope:
    """The exponent of a power law fitted to a curve; ``half`` is half its 95 % interval."""

    value: float
    half: float


def slope(heads: Sequence[int], errors: Sequence[float], first: int, last: int) -> Slope:
    """Fit log error against log m_h by least squares, for first ≤ m_h ≤ last."""
    from scipy.stats import linregress, t

    chosen = [(m, e) for m, e in zip(heads, errors, strict=True) if first <= m <= last]
    x, y = np.log(np.array(chosen, dtype=np.float64).T)
    line = linregress(x, y)
    freedom = len(chosen) - 2
    half = float(t.ppf(0.975, freedom) * line.stderr) if freedom > 0 else float("inf")
    return Slope(float(line.slope), half)
