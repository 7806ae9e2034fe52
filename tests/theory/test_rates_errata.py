"""Where the text of Theorem 4.1 and its proof does not hold, by numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.targets import sine_family
from exactformer.theory import bound, pod
from exactformer.theory.complexity import decompose


def truncation_error(sigma, head_dim: int, tau: int, count: int = 4000) -> tuple[float, float]:
    """E Σ_t |H_t − Ĥ_t| for exact features and ρ cut after head_dim terms, and its standard error."""
    target = sine_family(sigma, tau)
    x = target.sample(count, seed=3)
    errors = np.abs(target(x) - target.with_kernel(target.rho.truncate(head_dim))(x)).sum(-1)
    return float(errors.mean()), float(errors.std() / np.sqrt(count))


def test_scaling_the_coupling_breaks_the_printed_inequality_50() -> None:
    """The left side of (49) scales like c, the first term of (50), its only one here, like c²."""
    for c, holds in ((1.0, True), (1e-3, False)):
        sigma = c * np.arange(1, 17.0) ** -1.5
        error, spread = truncation_error(sigma, 4, tau=16)
        printed = bound(sine_family(sigma), 4, 256).printed.squares
        assert (error + 5 * spread < printed) is holds
        assert (error - 5 * spread > printed) is not holds


def test_the_corrected_bound_survives_any_scaling() -> None:
    for c in (1e-6, 1e-3, 1.0, 10.0):
        sigma = c * np.arange(1, 17.0) ** -1.5
        error, spread = truncation_error(sigma, 4, tau=16)
        limit = bound(sine_family(sigma), 4, 256)
        passed = limit.largest_weight**0.5 * limit.lipschitz * limit.radius_f
        assert error + 5 * spread < passed * sum(limit.truncation)


def test_the_printed_exponent_would_make_three_terms_two() -> None:
    """For rank 3 every α has a C₁, and C₁/2^(2α−1) → 0; two terms are not exact for that."""
    sigma = np.array([1.0, 0.8, 0.6])
    error, spread = truncation_error(sigma, 2, tau=4)
    target = sine_family(sigma, 4)
    found = decompose(target)
    tails = [
        bound(target, 2, 64, alpha=a, decomposition=found).printed.tail for a in (2.0, 20.0, 60.0)
    ]
    assert tails[0] > tails[1] > tails[2]
    assert tails[2] < 1e-5 < error - 5 * spread
    corrected = [0.6 * 3**a / (2 ** (a - 0.5) * np.sqrt(2 * a - 1)) for a in (2.0, 20.0, 60.0)]
    assert min(corrected) > found.tail(2)


def test_the_diagonal_is_not_in_equation_46() -> None:
    """Σ E|ρ − ρ_m|² is τ(τ−1)T² + τD²: for 128 terms 1/k, m = 4, τ = 16 it is 4.3 times (46)."""
    tau, m, sigma = 16, 4, 1 / np.arange(1, 129.0)
    target = sine_family(sigma, tau)
    rest = sigma[m:]
    tail, diagonal = (rest**2).sum(), rest.sum() ** 2 + (rest**2).sum() / 2
    limit = bound(target, m, 64)
    assert limit.tail**2 == pytest.approx(tail, rel=1e-9)
    assert limit.diagonal**2 == pytest.approx(diagonal, rel=1e-9)
    true = tau * (tau - 1) * tail + tau * diagonal
    assert true / (tau**2 * tail) == pytest.approx(4.25, abs=0.01)
    assert sum(b**2 for b in limit.truncation) == pytest.approx(true, rel=1e-9)
    x = target.sample(1500, seed=5)
    squares = ((target.scores(x) - target.rho.truncate(m).matrix(x, x)) ** 2).sum((-1, -2))
    spread = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - true) < 5 * spread
    assert squares.mean() - 5 * spread > tau**2 * tail


def test_the_sum_of_squares_needs_the_square_of_the_constant() -> None:
    """(50) to (52) takes Σ_{k>m} σ_k² ≤ C₁ m^(1−2α): false for σ_k = 10/k, true with C₁²/(2α − 1)."""
    found = pod(sine_family(10 / np.arange(1, 65.0)).rho)
    squares, constant = found.tail(1) ** 2, 10.0
    assert squares > 6 * constant
    assert squares < constant**2


@pytest.mark.parametrize(("m", "tail"), [(64, 1.73e-4), (256, 2.7e-6)])
def test_at_a_fixed_exponent_the_network_of_the_proof_errs_more_than_17(
    m: int, tail: float
) -> None:
    """σ_k = k⁻², τ = 4, F = f = id, exact features: the only term left of (17) is τ² C₀ C₁ / m³."""
    sigma = np.arange(1, 1025.0) ** -2
    error, spread = truncation_error(sigma, m, tau=4, count=500)
    printed = 4**2 * (2 * np.sqrt(2)) * 1.0 / m**3
    assert printed == pytest.approx(tail, rel=0.02)
    assert error - 5 * spread > 10 * printed


def test_48_leaves_out_the_singular_value() -> None:
    """With exact φ and ψ the right side of (48) is 0; the sum of (45) still lacks the factors σ_i."""
    target = sine_family([10.0], tau=2)
    x = np.array([0.25])  # φ = ψ = √2 sin 2πx is √2 there
    value = float(target.rho(x, x)[0])
    assert value == pytest.approx(20)
    without = value / 10
    assert value - without == pytest.approx(18)


def test_51_leaves_out_the_lipschitz_constant_of_f() -> None:
    """F(u) = 100u, f̂ = f + 10⁻³, all else exact: H moves by 1/10 at each of τ = 4 places."""
    tau, K_F, moved = 4, 100, Fraction(1, 1000)
    weights = [Fraction(w, 10) for w in (1, 2, 3, 4)]
    f = [Fraction(k, 7) for k in range(tau)]
    exact = K_F * sum(w * v for w, v in zip(weights, f, strict=True))
    off = K_F * sum(w * (v + moved) for w, v in zip(weights, f, strict=True))
    left, printed = tau * (off - exact), tau**2 * moved
    assert (left, printed) == (Fraction(4, 10), Fraction(16, 1000))
    assert printed < left <= K_F * printed


def test_continuous_outer_functions_need_no_lipschitz_constant() -> None:
    """Appendix A.2 calls the measures of Kolmogorov's g_q finite because they are continuous.

    √u is continuous on a compact interval, and its difference quotients at 0 pass every bound.
    """
    for n in (10, 1000, 10**6):
        u = Fraction(1, n * n)
        root = Fraction(1, n)
        assert root * root == u
        assert root / u == n


@given(*[st.fractions(-9, 9, max_denominator=9)] * 4)
def test_lemma_a_4_holds(a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> None:
    """|ab − cd| for approximations c of a and d of b."""
    first = abs(a) * abs(b - d) + abs(d) * abs(a - c)
    second = abs(a) * abs(b - d) + abs(b) * abs(a - c) + abs(a - c) * abs(b - d)
    assert abs(a * b - c * d) <= first <= second
