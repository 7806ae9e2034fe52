"""Where the text of Theorem 4.1 and its proof does not hold, by numbers."""

from __future__ import annotations

import numpy as np
import pytest

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
