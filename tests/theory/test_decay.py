"""Power law, exponential or finite rank: told apart when the values can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.targets import sine_family
from exactformer.theory import fit_decay, pod


@given(st.floats(0.6, 4), st.floats(1e-3, 1e3), st.integers(10, 60))
def test_a_power_law_is_found_with_its_exponent(alpha: float, constant: float, count: int) -> None:
    fit = fit_decay(constant * np.arange(1, count + 1.0) ** -alpha)
    assert fit.model == "power"
    assert fit.power is not None
    assert fit.alpha == pytest.approx(alpha, abs=1e-9)
    assert fit.power.constant == pytest.approx(constant, rel=1e-8)


@given(st.floats(0.05, 2), st.integers(10, 16))
def test_an_exponential_is_found_with_its_rate(gamma: float, count: int) -> None:
    fit = fit_decay(np.exp(-gamma * np.arange(count)))
    assert fit.model == "exponential"
    assert fit.exponential is not None
    assert fit.exponential.rate == pytest.approx(gamma, abs=1e-9)


@given(st.integers(1, 12), st.floats(0.2, 1), st.integers(0, 2**31))
def test_a_gap_is_a_finite_rank(rank: int, least: float, seed: int) -> None:
    values = np.sort(np.random.default_rng(seed).uniform(least, 1, rank))[::-1]
    assert fit_decay([*values, 0.0]).rank == rank
    assert fit_decay(values).rank is None


def test_the_interval_covers_the_exponent_nine_times_in_ten() -> None:
    """Noise of ten per cent, a hundred draws of each exponent."""
    random = np.random.default_rng(0)
    order, hits, widths = np.arange(1, 41.0), 0, []
    for _ in range(100):
        for alpha in (0.8, 1.5, 3.0):
            noisy = order**-alpha * np.exp(0.1 * random.normal(size=40))
            fit = fit_decay(np.sort(noisy)[::-1])
            assert fit.power is not None
            low, high = fit.power.interval
            hits += low <= alpha <= high
            widths.append(high - low)
    assert hits >= 270
    assert np.median(widths) < 0.2


@pytest.mark.parametrize(
    ("kernel", "alpha"),
    [
        (np.minimum, 2),
        (lambda u, v: np.exp(-np.abs(u - v)), 2),
        (lambda u, v: np.where(u >= v, 1.0, 0.0), 1),
    ],
    ids=["minimum", "exponential", "jump"],
)
def test_kernels_with_a_kink_or_a_jump_follow_their_power_law(kernel, alpha: float) -> None:
    fit = pod(kernel, max_nodes=512).decay()
    assert fit.model == "power"
    assert fit.power is not None
    assert fit.power.interval[0] <= alpha <= fit.power.interval[1]
    assert fit.power.interval[1] - fit.power.interval[0] < 0.5


def test_a_smooth_kernel_decays_exponentially() -> None:
    assert pod(lambda u, v: 1 / (1 + u + 3 * v)).decay().model == "exponential"


def test_a_sine_family_is_of_finite_rank_and_of_its_shape() -> None:
    fit = pod(sine_family(np.arange(1, 65.0) ** -1.5).rho).decay()
    assert fit.model == "finite rank"
    assert fit.rank == 64
    assert fit.shape == "power"
    assert fit.alpha == pytest.approx(1.5, abs=1e-6)
    assert "finite rank 64" in str(fit)


def test_a_truncated_kernel_is_not_taken_for_one_of_finite_rank() -> None:
    found = pod(np.minimum, max_nodes=256).truncate(5)
    assert found.decay().rank is None


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.5, 0.3, 0.2],
        [1.0, 0.99, 0.7, 0.69, 0.68, 0.3, 0.29],
        np.exp(-np.sqrt(np.arange(8))),
    ],
    ids=["too few", "steps", "between the two"],
)
def test_thin_evidence_is_undecided(values) -> None:
    assert fit_decay(values).model == "undecided"


def test_an_error_widens_the_interval() -> None:
    values = np.arange(1, 30.0) ** -1
    sharp, blurred = (fit_decay(values, error=e).power for e in (0.0, 1e-3))
    assert sharp is not None
    assert blurred is not None
    assert np.ptp(blurred.interval) > np.ptp(sharp.interval) + 0.01


@pytest.mark.parametrize("values", [[], [1, 2], [1, np.nan], [1, -1], [[1, 0.5]]])
def test_what_is_no_spectrum_is_refused(values) -> None:
    with pytest.raises(InputError):
        fit_decay(values)
