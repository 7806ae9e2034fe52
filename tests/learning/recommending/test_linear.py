"""The linear part: each class is exact on what it can do, and stops at its floor on what it cannot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.learning.recommending import samples
from exactformer.learning.recommending.linear import cross_validate
from exactformer.learning.recommending.memory import (
    decay_time,
    lags_needed,
    memory,
    realisations,
)
from exactformer.targets import LinearTarget, exponential_kernel, mix, random_filter, reorder
from exactformer.theory.floors import UNIFORM_VARIANCE, causal_floor

EXACT = 1e-12
"""Share of the variance that a fit without noise may leave: the smallest penalty is 1e-12."""


def unexplained(x, y):
    """Return the share of held-out variance that each class leaves, and the evidence."""
    data = samples(x, y)
    found = cross_validate(data, data.folds(0))
    total = np.square(data.outputs - data.outputs.mean(axis=0)).sum()
    left = {
        name: np.square(p - data.outputs).sum() / total for name, p in found.predictions.items()
    }
    return left, found, data


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_any_causal_kernel_is_found_and_all_larger_classes_find_it_too(seed):
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=6)
    target = LinearTarget(kernel)
    x = rng.random((200, 6))
    left, found, _ = unexplained(x, target(x))
    assert max(left[name] for name in ("time-invariant", "causal", "any")) < EXACT
    assert np.abs(found.fits["time-invariant"].kernel[:, 0, 0] - kernel).max() < 1e-6


def test_own_token_and_mean_are_found_by_the_equivariant_class():
    x = np.random.default_rng(0).random((200, 7, 2))
    y = 2 * x[..., 0] - x[..., 1] + 3 * x.mean(axis=(1, 2))[:, None]
    left, _, _ = unexplained(x, y)
    assert left["equivariant"] < EXACT
    assert left["any"] < EXACT
    assert left["causal"] > 0.01


@pytest.mark.parametrize(
    "target",
    [
        reorder(LinearTarget(exponential_kernel(8, 0.5)), np.arange(8)[::-1]),
        mix(LinearTarget(exponential_kernel(8, 0.5)), random_filter(3, seed=1)),
    ],
    ids=["reversed", "anticipating"],
)
def test_causal_fits_stop_at_the_exact_causal_floor(target):
    x = target.sample(4000, seed=1)
    left, _, _ = unexplained(x, target(x))
    total = UNIFORM_VARIANCE * np.square(target.matrix).sum() / target.tau
    assert left["any"] < EXACT
    for name, fixed in ("causal", False), ("time-invariant", True):
        floor = causal_floor(target.matrix, time_invariant=fixed, offset="free").error / total
        # 3200 training sequences and 8 weights add 0.25 % of the floor; 800 × 8 outputs make the
        # share known to about 2 % of itself.
        assert left[name] == pytest.approx(floor, rel=0.08)


def test_noise_is_not_explained():
    rng = np.random.default_rng(2)
    left, _, _ = unexplained(rng.random((300, 6)), rng.normal(size=(300, 6)))
    assert min(left.values()) > 0.99


def test_one_output_after_the_last_token_makes_all_causal_classes_one():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100, 5, 2))
    left, _, _ = unexplained(x, x[:, 0, 1] - x[:, 4, 0] + 0.1 * rng.normal(size=100))
    assert left["time-invariant"] == pytest.approx(left["any"], rel=1e-9)
    assert left["causal"] == pytest.approx(left["any"], rel=1e-9)


@pytest.mark.parametrize("states", [1, 2, 3])
def test_a_sum_of_exponentials_takes_one_state_each(states):
    decays = np.array([0.3, 0.9, -0.7])[:states]
    kernel = (decays ** np.arange(16)[:, None]).sum(axis=1)
    assert [
        np.abs(found[:, 0, 0] - kernel).max() < 1e-8
        for found in realisations(kernel[:, None, None])
    ] == [False] * (states - 1) + [True]
    x = np.random.default_rng(4).normal(size=(300, 16))
    _, found, data = unexplained(x, LinearTarget(kernel)(x))
    assert memory(data, data.folds(0), found).states <= states


@pytest.mark.parametrize("lag", [9, 13])
def test_a_single_lag_takes_a_state_for_every_step_but_one_look(lag):
    x = np.random.default_rng(5).normal(size=(300, 16))
    _, found, data = unexplained(x, LinearTarget(np.eye(16)[lag])(x))
    remembered = memory(data, data.folds(0), found)
    assert remembered.states == lag + 1
    assert remembered.lags == 1


def test_states_that_would_grow_are_not_counted():
    kernel = np.random.default_rng(7).normal(
        size=16
    )  # eight states do it, by a mode that grows tenfold
    x = np.random.default_rng(8).normal(size=(300, 16))
    _, found, data = unexplained(x, LinearTarget(kernel)(x))
    assert memory(data, data.folds(0), found).states > 8


def test_noise_does_not_add_states():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 24))
    y = LinearTarget(0.9 ** np.arange(24))(x)
    _, found, data = unexplained(x, y + 0.5 * y.std() * rng.normal(size=y.shape))
    assert memory(data, data.folds(0), found).states == 1


@given(st.floats(0.5, 20))
def test_the_decay_time_of_an_exponential_is_its_own(gamma):
    kernel = np.exp(-np.arange(24) / gamma)[:, None, None]
    assert decay_time(kernel, np.zeros_like(kernel)) == pytest.approx(gamma, rel=1e-9)
    assert decay_time(kernel, kernel) == 0


def test_the_decay_time_lies_in_its_interval():
    gamma, inside = 3.0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(150, 12))
        y = LinearTarget(exponential_kernel(12, 1 / gamma))(x)
        _, found, data = unexplained(x, y + 0.3 * rng.normal(size=y.shape))
        low, high = memory(data, data.folds(0), found).decay_interval
        assert high < 3 * low
        inside += low <= gamma <= high
    assert inside >= 7  # of 10 intervals of 95 %, fewer with probability 0.001


def test_a_kernel_that_does_not_fade_has_no_decay_time():
    assert decay_time(np.ones((12, 1, 1)), np.zeros((12, 1, 1))) == np.inf


@given(st.integers(1, 12), st.integers(0, 100))
def test_lags_are_counted_by_their_energy(lags, seed):
    kernel = np.zeros((12, 1, 1))
    kernel[np.random.default_rng(seed).permutation(12)[:lags]] = 1
    assert lags_needed(kernel) == lags
