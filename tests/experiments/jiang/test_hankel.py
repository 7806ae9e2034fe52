"""Realisations by n states: exact ones, best ones, and limits that none passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.experiments.jiang.hankel import (
    Realisation,
    balanced_truncation,
    hankel,
    hankel_bounds,
    hankel_singular_values,
    response_error,
    shift_register,
)
from exactformer.targets import LinearTarget, exponential_kernel, random_kernel


@st.composite
def kernels_and_states(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    tau = draw(st.integers(2, 16))
    kernel = np.random.default_rng(draw(st.integers(0, 2**32))).normal(size=tau)
    return kernel, draw(st.integers(1, tau))


def random_rnn(states: int, seed: int, radius: float) -> Realisation:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(states, states))
    w *= radius / np.abs(np.linalg.eigvals(w)).max()
    return Realisation(w, rng.normal(size=states), rng.normal(size=states))


def test_the_exponential_kernel_needs_one_state() -> None:
    kernel = exponential_kernel(32)
    cut_off = np.sqrt(sum((s + 1) * np.exp(-2.0 * s) for s in range(32, 400)))
    sigma = hankel_singular_values(kernel)
    assert sigma[0] > 1
    assert sigma[1] <= cut_off + 32 * 2.0**-52


@given(kernels_and_states(), st.integers(0, 99))
def test_a_shift_register_is_exact(problem: tuple[np.ndarray, int], seed: int) -> None:
    kernel, _ = problem
    model = shift_register(kernel)
    assert model.states == len(kernel)
    assert np.array_equal(model.kernel(len(kernel)), kernel)
    assert not model.kernel(2 * len(kernel))[len(kernel) :].any()
    target = LinearTarget(kernel)
    x = target.sample(2, seed)
    assert np.abs(model(x) - target(x)).max() <= 1e-14 * np.abs(kernel).sum()


def test_table_3_kernels_are_within_reach_of_32_states() -> None:
    """The paper prints an error of 5.58 for RNNs with 128 of them."""
    kernel = random_kernel(32, seed=0)
    model = balanced_truncation(kernel, 32)
    assert np.abs(model.kernel(64) - np.pad(kernel, (0, 32))).max() <= 1e-12
    assert response_error(kernel, shift_register(kernel)).energy == 0


@given(kernels_and_states())
def test_balanced_truncation_lies_between_its_bounds(problem: tuple[np.ndarray, int]) -> None:
    kernel, states = problem
    model = balanced_truncation(kernel, states)
    lower, upper = hankel_bounds(kernel, states)
    error = response_error(kernel, model)
    rounding = 1e-10 * hankel_singular_values(kernel)[0]
    assert model.states <= states
    assert model.spectral_radius < 1 + 1e-12
    assert error.gain <= upper + rounding
    assert error.horizon <= error.energy <= upper + rounding
    longer = np.concatenate([kernel, np.zeros(200)]) - model.kernel(len(kernel) + 200)
    assert np.linalg.svd(hankel(longer), compute_uv=False)[0] >= lower - rounding


@given(st.integers(1, 4), st.integers(0, 999), st.integers(6, 12), st.integers(0, 999))
def test_no_rnn_errs_less_than_the_lower_bounds(
    states: int, seed: int, tau: int, other: int
) -> None:
    kernel = np.random.default_rng(other).normal(size=tau)
    model = random_rnn(states, seed, radius=0.9)
    lower, _ = hankel_bounds(kernel, states)
    longer = np.concatenate([kernel, np.zeros(400)]) - model.kernel(tau + 400)
    assert np.linalg.svd(hankel(longer), compute_uv=False)[0] >= lower - 1e-10


def test_energy_is_the_sum_over_all_times() -> None:
    kernel, model = np.array([1.0, 0.5]), random_rnn(3, 5, radius=0.8)
    all_times = np.pad(kernel, (0, 498)) - model.kernel(500)
    assert response_error(kernel, model).energy == pytest.approx(
        np.linalg.norm(all_times), rel=1e-9
    )


def test_unstable_realisations_have_no_error_over_all_times() -> None:
    with pytest.raises(InputError, match="not stable"):
        response_error([1.0], random_rnn(2, 0, radius=1.1))


@pytest.mark.parametrize("states", [0, 4])
def test_impossible_numbers_of_states_are_refused(states: int) -> None:
    with pytest.raises(InputError, match="1 to 3 states"):
        balanced_truncation([1.0, 2.0, 3.0], states)


def test_what_is_no_kernel_is_refused() -> None:
    for wrong in ([], [[1.0]], [np.nan]):
        with pytest.raises(InputError):
            hankel_singular_values(wrong)


def test_bounds_are_those_of_a_number_of_states() -> None:
    """A slice from −1 would give the last singular value as the bound of no state at all."""
    for states in (-1, 1.5):
        with pytest.raises(InputError, match="number of states"):
            hankel_bounds([1.0, 0.5], states)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="states"):
        balanced_truncation([1.0, 0.5], 1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not complex"):
        hankel_bounds(np.full(3, 1j), 1)
