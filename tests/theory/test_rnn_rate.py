"""The rate d·C_RNN/m of appendix D.1 is false with any absolute constant: a proof in integers.

Target: ρ(s) = e(s mod p) e^(−s/γ), e(0) = 1 and else the Legendre symbol, p ≡ 3 mod 4 prime. Here
|ρ(s)| = e^(−s/γ), so C₁ = 1 + γ, C₂ = 1 and C_RNN = 1 + γ.

A linear RNN of m states has ρ̂(s) = cᵀWˢU, so its p × p Hankel matrix has rank m at most, stable or
not. That of ρ is DCD with D = diag(e^(−i/γ)) and C = (e((i + j) mod p)), and CᵀC = (p + 1)I − J. On the
p − 1 dimensional space of v with Dv orthogonal to the ones, |DCDv| ≥ √(p + 1) e^(−2(p−1)/γ) |v|. Hence
for m ≤ p − 2, with inputs in [0, 1],

    sup error  ≥  ½ Σ_{s ≤ 2p−2} |ρ − ρ̂|  ≥  ½ ‖Hankel(ρ − ρ̂)‖  ≥  ½ √(p + 1) e^(−2(p−1)/γ).
"""

from __future__ import annotations

from fractions import Fraction
from math import e, exp, factorial

import numpy as np
import pytest
from numpy.typing import NDArray


def symbols(p: int) -> list[int]:
    """Return e(0), …, e(p − 1)."""
    squares = {x * x % p for x in range(1, p)}
    return [1, *(1 if s in squares else -1 for s in range(1, p))]


def circulant(p: int) -> NDArray[np.int64]:
    e = np.array(symbols(p), dtype=np.int64)
    return e[np.add.outer(np.arange(p), np.arange(p)) % p]


def exp_above(x: Fraction) -> Fraction:
    """Return a rational number above eˣ, for 0 ≤ x ≤ 8."""
    terms = 40
    series = sum((x**k / factorial(k) for k in range(terms)), Fraction(0))
    return series + 2 * x**terms / factorial(terms)  # the rest is a geometric series below 1/2


@pytest.mark.parametrize("p", [3, 7, 11, 19, 103, 307])
def test_the_hankel_matrix_of_legendre_symbols_is_nearly_orthogonal(p: int) -> None:
    """CᵀC = (p + 1)I − J, in integers."""
    C = circulant(p)
    assert np.array_equal(C.T @ C, (p + 1) * np.eye(p, dtype=np.int64) - 1)


def exceeds(p: int, gamma: int, factor: Fraction) -> bool:
    """Whether ½√(p + 1) e^(−2(p−1)/γ) > factor·(1 + γ)/(p − 2), squared, with eˣ taken too large."""
    grown = exp_above(Fraction(4 * (p - 1), gamma))
    return Fraction((p + 1) * (p - 2) ** 2, 4) > factor**2 * (1 + gamma) ** 2 * grown


@pytest.mark.parametrize(
    ("gamma", "p", "ratio"), [(400, 307, "1.44"), (6400, 4799, "5.79"), (1_000_000, 750_019, "72")]
)
def test_the_printed_rate_of_linear_rnns_is_exceeded_more_and_more(
    gamma: int, p: int, ratio: str
) -> None:
    """1.900 against the printed 1.315 for γ = 400 and m = 305, and without limit as γ grows."""
    assert p % 4 == 3
    assert all(p % k for k in range(2, int(p**0.5) + 1))
    assert exceeds(p, gamma, Fraction(ratio))
    if gamma == 400:
        assert (p + 1) ** 0.5 / 2 * exp(-2 * (p - 1) / gamma) == pytest.approx(1.900, abs=1e-3)
        assert (1 + gamma) / (p - 2) == pytest.approx(1.315, abs=1e-3)


@pytest.mark.parametrize("m", [1, 3, 5])
def test_no_rnn_found_by_realisation_is_below_the_bound(m: int) -> None:
    """Balanced realisations of m states, the best that singular values give, for p = 7 and γ = 20."""
    p, gamma = 7, 20
    s = np.arange(2 * p - 1)
    rho = np.array(symbols(p))[s % p] * np.exp(-s / gamma)
    places = np.add.outer(np.arange(p), np.arange(p))
    U, values, Vt = np.linalg.svd(rho[places])
    observed = U[:, :m] * np.sqrt(values[:m])
    W = np.linalg.lstsq(observed[:-1], observed[1:], rcond=None)[0]
    state, kernel = (Vt[:m].T * np.sqrt(values[:m])).T[:, 0], []
    for _ in s:
        kernel.append(observed[0] @ state)
        state = W @ state
    low = np.sqrt(p + 1) / 2 * np.exp(-2 * (p - 1) / gamma)
    assert np.abs(rho - kernel).sum() / 2 >= low


@pytest.mark.parametrize("memory", [0, 1, 10, 400])
@pytest.mark.parametrize("m", [1, 10, 305, 4000])
def test_a_shift_register_errs_by_a_rate_with_the_square_of_the_memory(memory: int, m: int) -> None:
    """What holds in its place: d·C₂·C₁(C₁ + 1)/(e·m), by keeping the last m inputs."""
    C1 = 1 + memory
    left_out = exp(-m / C1) / (1 - exp(-1 / C1))
    assert left_out <= C1 * (C1 + 1) / (e * m)
