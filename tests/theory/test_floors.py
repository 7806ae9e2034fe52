"""The least error of causal linear models: closed forms, optimality, and the paper's own settings."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.targets import (
    LinearTarget,
    exponential_kernel,
    mix,
    random_filter,
    random_kernel,
    reorder,
    swap_ends,
)
from exactformer.theory.floors import Floor, Offset, causal_floor, constant_error

OFFSETS: tuple[Offset, ...] = ("none", "constant", "free")
MEAN, VARIANCE = 1 / 2, 1 / 12
TAU = 32


def expected_error(
    target: np.ndarray, seen: np.ndarray, floor: Floor, mean: np.ndarray, covariance: np.ndarray
) -> float:
    """Return the error of a model from its definition: tr D Σ Dᵀ + |Dμ − o|², D = T − M A."""
    wrong = target - floor.model @ seen
    variance = np.trace(wrong @ covariance @ wrong.T)
    return float(variance + np.sum((wrong @ mean - floor.offset) ** 2)) / len(target)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    tau = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    root = rng.normal(size=(tau, tau))
    return rng.normal(size=(tau, tau)), rng.normal(size=tau), root @ root.T, rng


@given(problems(), st.sampled_from(OFFSETS), st.booleans())
def test_no_model_of_the_class_is_below_the_floor(problem, offset, time_invariant) -> None:
    target, mean, covariance, rng = problem
    tau = len(target)
    floor = causal_floor(target, mean, covariance, offset=offset, time_invariant=time_invariant)
    least = expected_error(target, np.eye(tau), floor, mean, covariance)
    scale = np.trace(target @ (covariance + np.outer(mean, mean)) @ target.T)
    assert abs(floor.error - least) <= 1e-9 * scale
    assert not np.triu(floor.model, 1).any()
    for size in (1.0, 1e-2):
        step = np.tril(rng.normal(size=(tau, tau)))
        if time_invariant:
            step = LinearTarget(step[:, 0]).matrix
        move = {"none": 0.0, "constant": rng.normal(), "free": rng.normal(size=tau)}[offset]
        other = Floor(0, floor.per_time, floor.model + size * step, floor.offset + size * move)
        error = expected_error(target, np.eye(tau), other, mean, covariance)
        assert error >= floor.error - 1e-9 * scale


@given(st.integers(1, 8), st.integers(0, 999))
def test_time_varying_floors_of_independent_inputs_have_a_closed_form(tau: int, seed: int) -> None:
    target = np.random.default_rng(seed).normal(size=(tau, tau))
    ahead = np.triu(target, 1)
    variance, mean = VARIANCE * (ahead**2).sum(axis=1), MEAN * ahead.sum(axis=1)
    share = 1 / (1 + np.arange(1, tau + 1) * MEAN**2 / VARIANCE)
    constant = (share * mean).sum() / share.sum()
    for offset, value in zip(OFFSETS, (0.0, constant, mean), strict=True):
        floor = causal_floor(target, offset=offset)
        closed = variance + share * (mean - value) ** 2
        assert np.abs(floor.per_time - closed).max() <= 1e-12 * (1 + closed.max())


@given(st.integers(1, 8), st.integers(0, 999))
def test_the_best_kernel_is_the_mean_along_diagonals(tau: int, seed: int) -> None:
    target = np.random.default_rng(seed).normal(size=(tau, tau))
    floor = causal_floor(target, time_invariant=True, offset="free")
    means = [np.diagonal(target, -lag).mean() for lag in range(tau)]
    assert np.abs(floor.model[:, 0] - means).max() <= 1e-12
    kept = sum((tau - lag) * mean**2 for lag, mean in enumerate(means))
    assert abs(floor.error - VARIANCE * ((target**2).sum() - kept) / tau) <= 1e-12


@given(problems())
def test_more_freedom_never_costs(problem) -> None:
    target, mean, covariance, _ = problem
    scale = np.trace(target @ (covariance + np.outer(mean, mean)) @ target.T)
    room = 1e-9 * scale
    errors = {
        (fixed, offset): causal_floor(
            target, mean, covariance, time_invariant=fixed, offset=offset
        ).error
        for fixed in (False, True)
        for offset in OFFSETS
    }
    for fixed in (False, True):
        for less, more in pairwise(OFFSETS):
            assert errors[fixed, more] <= errors[fixed, less] + room
    for offset in OFFSETS:
        assert errors[False, offset] <= errors[True, offset] + room


@given(st.integers(1, 12), st.integers(0, 99))
def test_filters_have_no_floor(tau: int, seed: int) -> None:
    target = LinearTarget(random_kernel(tau, seed))
    causal = mix(target, random_filter(5, seed), causal=True)
    for matrix in (target.matrix, causal.matrix):
        assert causal_floor(matrix, time_invariant=True).error <= 1e-26


def linear_rnn(w: np.ndarray, u: np.ndarray, c: np.ndarray, b: np.ndarray, x: np.ndarray) -> list:
    """Run h(t) = W h(t−1) + U x(t) + b, y(t) = c·h(t) from h = 0."""
    h, y = np.zeros(len(u)), []
    for value in x:
        h = w @ h + u * value + b
        y.append(c @ h)
    return y


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 999))
def test_linear_rnns_are_the_time_invariant_class_with_free_offsets(
    tau: int, states: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(states, states)) / 2, *rng.normal(size=(3, states)))
    offset = np.array(linear_rnn(*weights, np.zeros(tau)))
    columns = [np.array(linear_rnn(*weights, unit)) - offset for unit in np.eye(tau)]
    model = np.stack(columns, axis=1)
    assert np.abs(model - LinearTarget(model[:, 0]).matrix).max() <= 1e-12 * np.abs(model).max()
    target = rng.normal(size=(tau, tau))
    floor = causal_floor(target, time_invariant=True, offset="free")
    this = Floor(0, floor.per_time, model, offset)
    mean, covariance = np.full(tau, MEAN), VARIANCE * np.eye(tau)
    error = expected_error(target, np.eye(tau), this, mean, covariance)
    assert error >= floor.error - 1e-12


REORDERED = reorder(LinearTarget(exponential_kernel(TAU)), swap_ends(TAU, 10)).matrix


def test_table_2_reordered_lies_below_the_floor_of_its_own_model() -> None:
    """Printed: 3.57e-2, for a linear RNN. Some causal model may have it; no linear RNN has."""
    printed = 3.57e-2
    varying = [causal_floor(REORDERED, offset=o).error for o in OFFSETS]
    fixed = [causal_floor(REORDERED, offset=o, time_invariant=True).error for o in OFFSETS]
    assert varying == pytest.approx([0.0426897, 0.0339112, 0.0301176], rel=1e-5)
    assert fixed == pytest.approx([0.0804632, 0.0650840, 0.0526367], rel=1e-5)
    assert varying[2] < printed < fixed[2]


def test_other_readings_of_the_reordering_leave_room_for_the_printed_value() -> None:
    """Five values exchanged, ten shifted to the end, or ten overwritten by an exchange in place."""
    target = LinearTarget(exponential_kernel(TAU))
    five = reorder(target, swap_ends(TAU, 5)).matrix
    shifted = reorder(target, np.roll(np.arange(TAU), -10)).matrix
    overwritten = np.eye(TAU)[np.r_[:22, :10]]
    floors = [
        causal_floor(five, time_invariant=True, offset="free"),
        causal_floor(shifted, time_invariant=True, offset="free"),
        causal_floor(target.matrix, time_invariant=True, offset="free", observed=overwritten),
    ]
    errors = [floor.error for floor in floors]
    assert errors == pytest.approx([0.0355323, 0.0301176, 0.0296463], rel=1e-5)
    assert max(errors) < 3.57e-2


def test_table_3_is_what_a_constant_has() -> None:
    """Printed for RNNs: 5.58, and 5.24 reordered. Linear RNNs can have 0, and 0.26 to 0.55."""
    kernels = [LinearTarget(random_kernel(TAU, seed)) for seed in range(40)]
    constants = np.array([constant_error(kernel.matrix) for kernel in kernels])
    for printed in (5.58, 5.24):
        assert abs(constants.mean() - printed) <= constants.std()
    floors = [
        causal_floor(reorder(kernel, swap_ends(TAU, 10)).matrix, time_invariant=True).error
        for kernel in kernels
    ]
    assert min(floors) > 0.26
    assert max(floors) < 0.55


@given(st.integers(1, 8), st.integers(0, 999))
def test_constants_err_by_the_spread_of_all_outputs(tau: int, seed: int) -> None:
    target = np.random.default_rng(seed).normal(size=(tau, tau))
    middle = MEAN * target.sum(axis=1)
    spread = VARIANCE * (target**2).sum() / tau + np.mean((middle - middle.mean()) ** 2)
    assert constant_error(target) == pytest.approx(spread, rel=1e-9)


def test_floors_agree_with_sampled_errors() -> None:
    floor = causal_floor(REORDERED, time_invariant=True, offset="free")
    x = np.random.default_rng(0).random((20_000, TAU))
    errors = ((x @ (REORDERED - floor.model).T - floor.offset) ** 2).mean(axis=1)
    assert abs(errors.mean() - floor.error) <= 4 * errors.std() / np.sqrt(len(x))


@pytest.mark.parametrize(
    "arguments",
    [
        {"matrix": [[1, 2]]},
        {"matrix": [[np.nan]]},
        {"matrix": [[1.0]], "mean": [0, 0]},
        {"matrix": [[1.0]], "covariance": -1},
        {"matrix": np.eye(2), "covariance": [[1, 2], [0, 1]]},
        {"matrix": np.eye(2), "observed": np.eye(3)},
        {"matrix": np.eye(2), "offset": "some"},
        {"matrix": np.eye(2), "mean": np.nan},
        {"matrix": np.eye(2) * 1j},
        {"matrix": np.zeros((0, 0))},
        {"matrix": "one"},
    ],
)
def test_what_makes_no_problem_is_refused(arguments: dict) -> None:
    with pytest.raises(InputError):
        causal_floor(**arguments)


@pytest.mark.parametrize("mean", [0.0, 1.0, -3.0])
def test_a_constant_never_harms_where_inputs_never_vary(mean: float) -> None:
    """Of inputs that are always μ, every output is a multiple of the first: no error is left."""
    for offset in ("none", "constant", "free"):
        found = causal_floor(np.ones((3, 3)), mean, 0.0, offset=offset)  # type: ignore[arg-type]
        assert found.error == pytest.approx(0.0, abs=1e-24)
